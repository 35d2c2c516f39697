-- The roles of the database and the rows that each may see. An administrator runs it once, and again after an upgrade:
--
--   psql --single-transaction --file roles.sql "$OWNER_DSN"      or      verbworker db roles --dsn "$OWNER_DSN"
--
-- It may be run any number of times: it takes back what the four roles were granted before, and grants what stands here.
-- Where it ran once, `verbworker db migrate` runs it after each migration. It needs the right to create roles only if one of
-- the four is missing. None of them can log in: GRANT verbworker_worker TO <the login of your workers>.
--
--   owner               whoever migrated the database: the tables are his, no policy holds for him, nothing runs as him
--   verbworker_worker   `verbworker worker`, and what operators do: deploy, frames, retention. The only one that may see all
--                       tenants, in sessions that say so
--   verbworker_console  `verbworker console`        verbworker_ingress  `verbworker ingress`, and programs with a client
--   verbworker_reader   looks and changes nothing
DO $roles$
DECLARE
  readers CONSTANT text := 'verbworker_worker, verbworker_console, verbworker_ingress, verbworker_reader';
  own_tenant CONSTANT text := $$tenant_id = current_setting('verbworker.tenant', true)$$;
  role name;
  rule record;
  condition text;
  known regclass;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('verbworker.roles'));
  FOREACH role IN ARRAY string_to_array(readers, ', ') LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', role);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL;  -- roles are the server's: another database of it was given them at the same moment
      END;
    END IF;
  END LOOP;
  EXECUTE 'REVOKE ALL ON ALL TABLES IN SCHEMA verbworker, verbworker_engine FROM ' || readers;
  EXECUTE 'REVOKE ALL ON ALL SEQUENCES IN SCHEMA verbworker, verbworker_engine FROM ' || readers;
  EXECUTE 'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA verbworker, verbworker_engine FROM ' || readers;
  EXECUTE 'GRANT USAGE ON SCHEMA verbworker, verbworker_engine TO ' || readers;

  -- One line per table: whose its rows are, what workers may do, what consoles and ingresses may do. All may read, except
  -- the sessions of the console. Nobody else has DELETE, and UPDATE is of columns: what people read is in none of them.
  -- The `tenant_id` of a frame, and of the embedded engine's tables, is the engine's word and none of our tenants.
  -- Rows are those of their `tenant_id`, or of the row that they belong to; `all`: they belong to no tenant.
  FOR rule IN
    SELECT * FROM (VALUES
      ('verbworker.migration', 'all',
       '',
       ''),
      ('verbworker.workflow_instance', 'tenant_id',
       'INSERT, UPDATE (correlation, instance_key, definition_key, process_version, status, started_at, missed_at, '
       'probed_at, gone_at, ended_at)',
       'INSERT, UPDATE (status, ended_at)'),
      ('verbworker.payload_head', 'instance',
       'INSERT, UPDATE (version, hash, content, seal, flags, unversioned_until)',
       'INSERT, UPDATE (flags)'),
      ('verbworker.payload_version', 'instance',
       'INSERT',
       'INSERT'),
      ('verbworker.job_frame', 'instance',
       'INSERT, UPDATE (reported_at, state, epoch, owner, lease_until, activated_ms, claimed_from, deliveries, runs, '
       'infra_runs, retries_left, first_run_at, mode, on_unknown, max_runs, idempotency_window, process_id, '
       'process_version, element_id, input_hash, next_retry_at, acked_at, ack_result, outcome, output, output_hash, '
       'output_seal, flags, correlation, popped_at, error_code, fail_class, fail_code, fail_text, relay_at, '
       'generation, idempotency_key, keyed_at, repeats)',
       'UPDATE (state, next_retry_at, retries_left, runs, infra_runs, generation, idempotency_key, first_run_at, '
       'keyed_at, acked_at, ack_result)'),
      ('verbworker.job_frame_archive', 'instance',
       '',
       ''),
      ('verbworker.frame_event', 'frame',
       'INSERT',
       'INSERT'),
      ('verbworker.frame_conflict', 'frame',
       'INSERT',
       ''),
      ('verbworker.job_delivery', 'instance',
       'INSERT, DELETE, UPDATE (retries, owner, lease_until, delivered_at)',
       ''),
      ('verbworker.worker_boot', 'all',
       'INSERT, UPDATE (seen_at, ended_at)',
       ''),
      ('verbworker.runbook_entry', 'tenant_id',
       'INSERT, UPDATE (outcome, owner, epoch, lease_until, cancel_requested_at, last_seq, last_hash, status, '
       'updated_at, ended_at, process_version, definition_key)',
       'INSERT, UPDATE (outcome, owner, epoch, lease_until, cancel_requested_at, last_seq, last_hash, status, '
       'updated_at, ended_at, process_version, definition_key)'),
      ('verbworker.runbook_event', 'entry',
       'INSERT',
       'INSERT'),
      ('verbworker.runbook_seal', 'tenant_id',
       'INSERT',
       ''),
      ('verbworker.runbook_seal_line', 'tenant_id',
       'INSERT',
       ''),
      ('verbworker.parked_token', 'tenant_id',
       'INSERT, UPDATE (user_task_key, engine_assignee, job_key, assign_after, assign_trouble, claimed_by, '
       'claimed_by_id, claimed_at, closed_at, closed_as, element_instance_key, instance_key, seen_at, incident_key, '
       'incident_type, incident_text, missed_at, opened_at, reason)',
       'UPDATE (claimed_by, claimed_by_id, claimed_at, assign_after, assign_trouble, engine_assignee, closed_at, '
       'closed_as, incident_key, incident_type, incident_text, missed_at)'),
      ('verbworker.gate_decision', 'tenant_id',
       'INSERT, UPDATE (acked_at, answer, attempts, next_at, last_error)',
       'INSERT, UPDATE (acked_at, answer, attempts, next_at, last_error)'),
      ('verbworker.person', 'tenant_id',
       'INSERT, UPDATE (name, roles, seen_at)',
       'INSERT, UPDATE (name, roles, seen_at)'),
      ('verbworker.dispatch', 'entry',
       'INSERT, UPDATE (attempts, owner, next_at, last_error, done_at, variables)',
       'INSERT, UPDATE (done_at, variables)'),
      ('verbworker.inbox_message', 'tenant_id',
       'INSERT, UPDATE (state, generation, attempts, owner, instance_uid, published_at, correlation_key, last_error, '
       'next_at, queued_at, expires_at, discarded_at, consumed_at, ended_element, ended_input, resend_at)',
       'INSERT, UPDATE (state, generation, attempts, owner, instance_uid, published_at, correlation_key, last_error, '
       'next_at, queued_at, expires_at, discarded_at, consumed_at, ended_element, ended_input, resend_at)'),
      ('verbworker.envelope_queue', 'tenant_id',
       'INSERT, DELETE, UPDATE (queued_at)',
       'INSERT, DELETE, UPDATE (queued_at)'),
      ('verbworker.dead_letter', 'tenant_id',
       'INSERT, UPDATE (state, resolved_at, resolved_by, resolved_reason)',
       'INSERT, UPDATE (state, resolved_at, resolved_by, resolved_reason)'),
      ('verbworker.compensation_record', 'tenant_id',
       'INSERT, UPDATE (job_key, state, variables, ended_at)',
       ''),
      ('verbworker.tenant_use', 'tenant_id',
       'INSERT, DELETE, UPDATE (requests, bytes)',
       'INSERT, UPDATE (requests, bytes)'),
      ('verbworker.stall', 'tenant_id',
       'INSERT, DELETE, UPDATE (nudged_at)',
       ''),
      ('verbworker.console_session', 'all',
       '',
       'INSERT, UPDATE (seen_at, ended_at)'),
      ('verbworker.plain_incident', 'all',
       'INSERT, UPDATE (resolved_by, resolved_because, missed_at, closed_at)',
       'INSERT, UPDATE (resolved_by, resolved_because, missed_at, closed_at)'),
      ('verbworker.process_deployment', 'all',
       'INSERT, UPDATE (process_id, version, verb, resource, woven, waits, steps, deployed_by, terms_digest, '
       'catches, is_assumed, authored_sha256, woven_sha256)',
       ''),
      ('verbworker.deployment_request', 'all',
       'INSERT, UPDATE (requested_at, verb, resource, woven, waits, steps, requested_by, terms_digest, catches, '
       'flags, authored_sha256, shape_sha256)',
       ''),
      ('verbworker.process_terms', 'all',
       'INSERT',
       ''),
      ('verbworker.step_visit', 'visit',
       'INSERT, DELETE, UPDATE (visit)',
       ''),
      ('verbworker.upkeep_turn', 'all',
       'INSERT, UPDATE (owner, number, due_at, looked_until)',
       ''),
      ('verbworker_engine.identity', 'all',
       'INSERT',
       ''),
      ('verbworker_engine.definition', 'all',
       'INSERT',
       ''),
      ('verbworker_engine.message_start', 'all',
       'INSERT, DELETE, UPDATE (message_name, definition_key)',
       ''),
      ('verbworker_engine.instance', 'engine',
       'INSERT, DELETE, UPDATE (revision, state, variables)',
       'INSERT, DELETE, UPDATE (revision, state, variables)'),
      ('verbworker_engine.ended_instance', 'engine',
       'INSERT, DELETE, UPDATE (variables)',
       'INSERT'),
      ('verbworker_engine.job', 'engine',
       'INSERT, DELETE, UPDATE (is_held, retries, worker, due_at, activated_ms, claims)',
       'INSERT, DELETE, UPDATE (is_held, retries, worker, due_at, activated_ms, claims)'),
      -- The sweep locks what it deletes, which takes the right to update something.
      ('verbworker_engine.token_history', 'engine',
       'INSERT, DELETE, UPDATE (ended_at)',
       'INSERT'),
      ('verbworker_engine.timer', 'engine',
       'INSERT, DELETE, UPDATE (due_at)',
       'INSERT, DELETE, UPDATE (due_at)'),
      ('verbworker_engine.subscription', 'engine',
       'INSERT, DELETE',
       'INSERT, DELETE'),
      ('verbworker_engine.message', 'all',
       'INSERT, DELETE, UPDATE (message_key, variables, expires_at, taken_by)',
       'INSERT, UPDATE (message_key, variables, expires_at, taken_by)'),
      ('verbworker_engine.incident', 'engine',
       'INSERT, DELETE',
       'INSERT, DELETE')
    ) AS decided (relation, rows_of, worker, people)
  LOOP
    known := to_regclass(rule.relation);
    CONTINUE WHEN known IS NULL;
    -- A buffered message is of no case yet: what nobody can hold to a tenant, only those see who move tokens.
    EXECUTE format('GRANT SELECT ON %s TO %s', known, CASE rule.relation
      WHEN 'verbworker.console_session' THEN 'verbworker_console'
      WHEN 'verbworker_engine.message' THEN 'verbworker_worker, verbworker_console, verbworker_ingress'
      ELSE readers END);
    IF rule.worker <> '' THEN
      EXECUTE format('GRANT %s ON %s TO verbworker_worker', rule.worker, known);
    END IF;
    IF rule.people <> '' THEN
      EXECUTE format('GRANT %s ON %s TO verbworker_console%s', rule.people, known, CASE rule.relation
        WHEN 'verbworker.console_session' THEN '' ELSE ', verbworker_ingress' END);
    END IF;
    CONTINUE WHEN rule.rows_of = 'all';
    condition := CASE rule.rows_of
      WHEN 'tenant_id' THEN own_tenant
      -- What a row belongs to is behind a policy itself, so that only rows of the tenant are found.
      WHEN 'entry' THEN format(
        'EXISTS (SELECT 1 FROM verbworker.runbook_entry AS owner WHERE owner.entry_id = %s.entry_id)', known)
      WHEN 'instance' THEN format(
        'EXISTS (SELECT 1 FROM verbworker.workflow_instance AS owner WHERE owner.instance_uid = %s.instance_uid)', known)
      WHEN 'visit' THEN format(
        'EXISTS (SELECT 1 FROM verbworker.workflow_instance AS owner WHERE owner.engine_id = %1$s.engine_id'
        ' AND owner.instance_key = %1$s.process_instance_key)', known)
      WHEN 'frame' THEN format(
        'EXISTS (SELECT 1 FROM verbworker.job_frame AS owner WHERE owner.engine_id = %1$s.engine_id'
        ' AND owner.job_key = %1$s.job_key) OR EXISTS (SELECT 1 FROM verbworker.job_frame_archive AS owner'
        ' WHERE owner.engine_id = %1$s.engine_id AND owner.job_key = %1$s.job_key)', known)
      WHEN 'engine' THEN format(
        'EXISTS (SELECT 1 FROM verbworker.workflow_instance AS owner WHERE owner.instance_key = %s.instance_key'
        ' AND owner.engine_id = (SELECT one.engine_id FROM verbworker_engine.identity AS one))', known)
    END;
    -- Locks the table against everything, so only where it changes something.
    IF NOT (SELECT relrowsecurity FROM pg_class WHERE oid = known) THEN
      EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', known);
    END IF;
    IF EXISTS (
      SELECT 1 FROM pg_policy
      WHERE polrelid = known AND polname = 'own_tenant' AND obj_description(oid, 'pg_policy') = md5(condition)
    ) THEN
      CONTINUE;
    END IF;
    EXECUTE format(
      'DROP POLICY IF EXISTS every_tenant ON %s; DROP POLICY IF EXISTS moves_tokens ON %1$s;'
      ' DROP POLICY IF EXISTS own_tenant ON %1$s', known);
    -- The embedded engine moves the tokens of many cases in one statement, in every process that sends it something. One
    -- that saw only some of the waits would store a message beside the wait that it is for.
    IF rule.rows_of = 'engine' THEN
      EXECUTE format(
        'CREATE POLICY moves_tokens ON %s TO verbworker_worker, verbworker_console, verbworker_ingress USING (true)', known);
    END IF;
    -- Policies are tried in the order of their names: a worker's session is done with the first.
    EXECUTE format(
      'CREATE POLICY every_tenant ON %s TO verbworker_worker USING (current_setting(''verbworker.tenant'', true) = ''*'')',
      known);
    EXECUTE format('CREATE POLICY own_tenant ON %s USING (%s)', known, condition);
    EXECUTE format('COMMENT ON POLICY own_tenant ON %s IS %L', known, md5(condition));
  END LOOP;

  -- Jobs of no case: who resolves incidents sees those of plain processes, and held ones whose case nobody knows.
  condition := 'instance_uid IS NULL OR (state = ''incident'' AND NOT verbworker.has_case(instance_uid))';
  IF NOT EXISTS (
    SELECT 1 FROM pg_policy
    WHERE polrelid = 'verbworker.job_frame'::regclass AND polname = 'of_no_case'
      AND obj_description(oid, 'pg_policy') = md5(condition)
  ) THEN
    DROP POLICY IF EXISTS of_no_case ON verbworker.job_frame;
    EXECUTE format(
      'CREATE POLICY of_no_case ON verbworker.job_frame TO verbworker_worker, verbworker_console, verbworker_ingress'
      ' USING (%s)', condition);
    EXECUTE format('COMMENT ON POLICY of_no_case ON verbworker.job_frame IS %L', md5(condition));
  END IF;

  -- A table without a line is closed to all.
  FOR known IN
    SELECT oid FROM pg_class
    WHERE relnamespace IN ('verbworker'::regnamespace, 'verbworker_engine'::regnamespace) AND relkind IN ('r', 'p')
      AND NOT relispartition AND NOT relrowsecurity AND NOT EXISTS (
        SELECT 1 FROM unnest(string_to_array(readers, ', ')) AS one (name) WHERE has_table_privilege(one.name, oid, 'SELECT'))
  LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', known);
  END LOOP;

  -- A view reads as whoever asks, so that the policies hold behind it too.
  FOR known IN
    SELECT oid FROM pg_class
    WHERE relnamespace IN ('verbworker'::regnamespace, 'verbworker_engine'::regnamespace) AND relkind = 'v'
  LOOP
    EXECUTE format('GRANT SELECT ON %s TO %s', known, readers);
    IF NOT EXISTS (SELECT 1 FROM pg_class WHERE oid = known AND 'security_invoker=true' = ANY (reloptions)) THEN
      EXECUTE format('ALTER VIEW %s SET (security_invoker = true)', known);
    END IF;
  END LOOP;

  EXECUTE 'GRANT USAGE ON SEQUENCE verbworker_engine.instance_number'
    ' TO verbworker_worker, verbworker_console, verbworker_ingress';
  -- What runs as the owner: each is closed to PUBLIC by its migration.
  EXECUTE 'GRANT EXECUTE ON FUNCTION verbworker.ensure_archive_month(timestamptz),'
    ' verbworker.archive_frames(interval, bigint), verbworker.prune_frames(interval, bigint),'
    ' verbworker.displace_frame(text, bigint, bigint), verbworker.count_retired(text, timestamptz, bigint),'
    ' verbworker.drop_retired(text, timestamptz, bigint), verbworker.drop_payloads(timestamptz, bigint),'
    ' verbworker.drop_archived_frames(timestamptz, bigint), verbworker.drop_entries(uuid[], bytea[], timestamptz)'
    ' TO verbworker_worker';
  EXECUTE 'GRANT EXECUTE ON FUNCTION verbworker.has_case(uuid), verbworker.find_addressees(text, text, text[], text[])'
    ' TO verbworker_worker, verbworker_console, verbworker_ingress';
END
$roles$;
