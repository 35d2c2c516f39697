-- The verdict of one transactional verb, by plain statements on keys: what stores a batch costs Postgres several times as
-- much when the batch has one row. These functions plan as our own pools do, whatever the session of the verb was set to.

-- Store a verdict whose frame and head are locked, and move the head to it.
CREATE FUNCTION verbworker.store_verdict(
  engine text, job bigint, uid uuid, bytes bytea, digest bytea, seal text, flag_values text, keys text, acknowledged text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  next_version bigint;
BEGIN
  UPDATE verbworker.payload_head AS head
  SET version = head.version + 1, hash = digest, content = bytes
  WHERE head.instance_uid = uid
  RETURNING head.version INTO next_version;
  INSERT INTO verbworker.payload_version (instance_uid, hash, version, job_key)
  VALUES (uid, digest, next_version, job)
  ON CONFLICT (instance_uid, hash) DO NOTHING;
  UPDATE verbworker.job_frame AS frame
  SET state = 'completed', outcome = 'complete', output = bytes, output_hash = digest, output_seal = seal,
    flags = flag_values::jsonb, correlation = keys::jsonb, popped_at = clock_timestamp(), reported_at = NULL,
    acked_at = CASE WHEN acknowledged IS NOT NULL THEN clock_timestamp() END, ack_result = acknowledged
  WHERE frame.engine_id = engine AND frame.job_key = job;
  IF keys <> '{}' THEN
    UPDATE verbworker.workflow_instance AS instance
    SET correlation = keys::jsonb || instance.correlation
    WHERE instance.instance_uid = uid;
  END IF;
END
$$;

-- Lock a claim's frame, then the head it was based on, as every statement does that takes both. Null when another claim
-- has the frame or its instance is not the pinned one, false when the head has moved.
CREATE FUNCTION verbworker.hold_claim(engine text, boot uuid, job bigint, claim bigint, uid uuid, base bytea)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1
  FROM verbworker.job_frame AS frame
  WHERE frame.engine_id = engine AND frame.job_key = job AND frame.owner = boot AND frame.epoch = claim
    AND frame.state = 'started' AND frame.instance_uid = uid AND frame.process_instance_key = (
      SELECT instance.instance_key FROM verbworker.workflow_instance AS instance WHERE instance.instance_uid = uid)
  FOR UPDATE;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  PERFORM 1 FROM verbworker.payload_head AS head WHERE head.instance_uid = uid AND head.hash = base FOR UPDATE;
  RETURN FOUND;
END
$$;

-- Store the verdict of one run (T5). Null when it is fenced, false when the head has moved and the caller must merge.
-- After this no user code runs before the commit, so an idle session is frozen and must not keep its locks.
CREATE FUNCTION verbworker.pop_one(
  engine text, boot uuid, job bigint, claim bigint, uid uuid, base bytea, bytes bytea, digest bytea, seal text,
  flag_values text, keys text
) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  is_current boolean := verbworker.hold_claim(engine, boot, job, claim, uid, base);
BEGIN
  PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
  IF is_current THEN
    PERFORM verbworker.store_verdict(engine, job, uid, bytes, digest, seal, flag_values, keys, NULL);
  END IF;
  RETURN is_current;
END
$$;

-- The same together with the step that completes its job in the embedded engine, which acknowledges it: verdict, token and
-- next jobs are one statement. Nothing is written unless all of it can be. `answer` is 'fenced', 'overtaken' (the head has
-- moved), 'refused' (the instance moved on, or the job may not be reported on any more) or 'done'.
-- For steps that only end jobs and make new ones, as nearly all do. The instance is locked before anything of its own.
CREATE FUNCTION verbworker_engine.finish_job(
  engine text, boot uuid, job bigint, claim bigint, uid uuid, base bytea, bytes bytea, digest bytea, seal text,
  flag_values text, keys text,
  instance bigint, at_revision bigint, new_variables bytea, new_state bytea, ends_as text,
  made_keys bigint[], made_types text[], made_elements text[], made_scopes bigint[], made_retries integer[],
  made_headers text[], made_workers text[], made_timeouts bigint[], gone_keys bigint[],
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
      job_key, instance_key, tenant_id, type, element_id, element_instance_key, retries, headers, due_at, worker,
      activated_ms
    )
    SELECT
      made.job_key, instance, tenant, made.type, made.element_id, made.element_instance_key, made.retries, made.headers,
      now_is + made.timeout_ms * interval '1 millisecond', made.worker, CASE WHEN made.worker IS NULL THEN 0 ELSE at_ms END
    FROM unnest(
      made_keys, made_types, made_elements, made_scopes, made_retries, made_headers, made_workers, made_timeouts
    ) AS made (job_key, type, element_id, element_instance_key, retries, headers, worker, timeout_ms);
  END IF;
  answer := 'done';
END
$$;
