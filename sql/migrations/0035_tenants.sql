-- Fair pick-up: whoever claims due rows serves the tenants in turn, so the tenant leads an index of each such queue. The
-- index by time alone stays: it fills a batch where few tenants have something due.
ALTER TABLE verbworker.dispatch ADD COLUMN IF NOT EXISTS tenant_id text NOT NULL DEFAULT '';
UPDATE verbworker.dispatch
SET tenant_id = entry.tenant_id
FROM verbworker.runbook_entry AS entry
WHERE entry.entry_id = dispatch.entry_id AND dispatch.tenant_id = '';
CREATE INDEX dispatch_in_turn ON verbworker.dispatch (engine_id, tenant_id, next_at) WHERE done_at IS NULL;

CREATE INDEX inbox_message_in_turn ON verbworker.inbox_message (engine_id, tenant_id, next_at)
WHERE state IN ('received', 'published');

-- The tenant that a job's case belongs to; the engine's own tenant is another word, and mostly one for all. Empty for a
-- plain process, which has no case.
ALTER TABLE verbworker_engine.job ADD COLUMN case_tenant text NOT NULL DEFAULT '';
CREATE INDEX job_in_turn ON verbworker_engine.job (type, tenant_id, case_tenant, due_at) WHERE NOT is_held;

-- As `finish_job` of 0021, for steps whose new jobs name the tenant of their case. The older form stays for workers that
-- run while this is applied.
CREATE FUNCTION verbworker_engine.finish_job(
  engine text, boot uuid, job bigint, claim bigint, uid uuid, base bytea, bytes bytea, digest bytea, seal text,
  flag_values text, keys text,
  instance bigint, at_revision bigint, new_variables bytea, new_state bytea, ends_as text,
  made_keys bigint[], made_types text[], made_elements text[], made_scopes bigint[], made_retries integer[],
  made_headers text[], made_workers text[], made_timeouts bigint[], gone_keys bigint[], owner text,
  OUT answer text, OUT at_ms bigint
) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  is_current boolean := verbworker.hold_claim(engine, boot, job, claim, uid, base);
  now_is timestamptz := verbworker_engine.now();
  tenant text;
BEGIN
  PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
  IF is_current IS NOT TRUE THEN
    answer := CASE WHEN is_current IS NULL THEN 'fenced' ELSE 'overtaken' END;
    RETURN;
  END IF;
  SELECT one.tenant_id INTO tenant
  FROM verbworker_engine.instance AS one
  WHERE one.instance_key = instance AND one.revision = at_revision
  FOR UPDATE;
  IF FOUND THEN
    PERFORM 1
    FROM verbworker_engine.job AS one
    WHERE one.job_key = job AND NOT one.is_held AND (one.worker IS NOT NULL OR one.due_at <= now_is)
    FOR UPDATE;
  END IF;
  IF NOT FOUND THEN
    answer := 'refused';
    RETURN;
  END IF;
  PERFORM verbworker.store_verdict(engine, job, uid, bytes, digest, seal, flag_values, keys, 'ok');
  IF ends_as = '' THEN
    UPDATE verbworker_engine.instance AS one
    SET revision = one.revision + 1, state = new_state, variables = coalesce(new_variables, one.variables)
    WHERE one.instance_key = instance;
  ELSE
    WITH removed AS (
      DELETE FROM verbworker_engine.instance AS one
      WHERE one.instance_key = instance
      RETURNING one.definition_key, one.tenant_id, coalesce(new_variables, one.variables) AS variables, one.created_at
    )
    INSERT INTO verbworker_engine.ended_instance (
      instance_key, definition_key, tenant_id, status, variables, created_at, ended_at
    )
    SELECT instance, definition_key, tenant_id, ends_as, variables, created_at, now_is
    FROM removed;
  END IF;
  DELETE FROM verbworker_engine.job AS one WHERE one.job_key = ANY (gone_keys);
  at_ms := floor(extract(epoch FROM now_is) * 1000)::bigint;
  IF cardinality(made_keys) > 0 THEN
    INSERT INTO verbworker_engine.job (
      job_key, instance_key, tenant_id, case_tenant, type, element_id, element_instance_key, retries, headers, due_at,
      worker, activated_ms
    )
    SELECT
      made.job_key, instance, tenant, owner, made.type, made.element_id, made.element_instance_key, made.retries,
      made.headers, now_is + made.timeout_ms * interval '1 millisecond', made.worker,
      CASE WHEN made.worker IS NULL THEN 0 ELSE at_ms END
    FROM unnest(
      made_keys, made_types, made_elements, made_scopes, made_retries, made_headers, made_workers, made_timeouts
    ) AS made (job_key, type, element_id, element_instance_key, retries, headers, worker, timeout_ms);
  END IF;
  answer := 'done';
END
$$;

-- What a tenant with a quota per minute has used of it. The count of a minute is spread over rows, one for each session
-- that counts (by the process id of its backend), so that starts of one tenant never wait for each other.
CREATE TABLE verbworker.tenant_use (
  tenant_id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('starts', 'messages')),
  minute timestamptz NOT NULL,
  backend integer NOT NULL,
  requests bigint NOT NULL,
  bytes bigint NOT NULL,
  PRIMARY KEY (tenant_id, kind, minute, backend)
) WITH (fillfactor = 70);
CREATE INDEX tenant_use_by_age ON verbworker.tenant_use (minute);

-- What a tenant has open, for quotas of these.
CREATE INDEX runbook_entry_open_of_tenant ON verbworker.runbook_entry (tenant_id) WHERE ended_at IS NULL;
