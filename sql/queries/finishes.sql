-- name: finish_one
-- Store one verdict together with the step of the embedded engine that completes its job.
SELECT answer, at_ms
FROM verbworker_engine.finish_job(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
  $26
);

-- name: finish
-- Store the verdicts of a batch and complete their jobs, for plain steps: each verdict with its step, or neither. A job
-- returns no row if its frame, head, instance or job is not as it was read; then nothing of it is written, and the
-- caller takes the way that finds out why.
-- Rows are locked as by `finish_one` and `pop_completed`: frames in key order, heads in the order of their instances,
-- then the engine's instances and jobs in key order.
WITH clock AS MATERIALIZED (
  SELECT now, floor(extract(epoch FROM now) * 1000)::bigint AS ms
  FROM verbworker_engine.now() AS now
),
claimed AS MATERIALIZED (
  SELECT item.*
  FROM unnest($3::bigint[], $4::bigint[], $5::uuid[], $12::bigint[], $13::bigint[], $16::text[]) WITH ORDINALITY
    AS item (job_key, epoch, instance_uid, instance_key, revision, ended, place)
  CROSS JOIN LATERAL (
    SELECT 1
    FROM verbworker.job_frame AS frame
    WHERE frame.engine_id = $1 AND frame.job_key = item.job_key
      AND frame.owner = $2 AND frame.epoch = item.epoch AND frame.state = 'started'
      -- By no index: the one by instance would read every frame of a case.
      AND frame.instance_uid IS NOT DISTINCT FROM item.instance_uid AND frame.process_instance_key = (
        SELECT instance.instance_key
        FROM verbworker.workflow_instance AS instance
        WHERE instance.instance_uid = item.instance_uid
      )
    FOR UPDATE
  ) AS held
),
current AS MATERIALIZED (
  SELECT claimed.*
  FROM (SELECT * FROM claimed ORDER BY instance_uid) AS claimed
  CROSS JOIN LATERAL (
    SELECT 1
    FROM verbworker.payload_head AS head
    WHERE head.instance_uid = claimed.instance_uid AND head.hash = ($6::bytea[])[claimed.place]
    FOR UPDATE
  ) AS held
),
standing AS MATERIALIZED (
  SELECT current.*, held.tenant_id
  FROM (SELECT * FROM current ORDER BY instance_key) AS current
  CROSS JOIN LATERAL (
    SELECT instance.tenant_id
    FROM verbworker_engine.instance
    WHERE instance.instance_key = current.instance_key AND instance.revision = current.revision
    FOR UPDATE
  ) AS held
),
ready AS MATERIALIZED (
  SELECT standing.*
  FROM standing
  CROSS JOIN LATERAL (
    SELECT 1
    FROM verbworker_engine.job
    WHERE job.job_key = standing.job_key AND NOT job.is_held
      AND (job.worker IS NOT NULL OR job.due_at <= (SELECT now FROM clock))
    FOR UPDATE
  ) AS held
),
moved AS (
  UPDATE verbworker.payload_head AS head
  SET version = head.version + 1, hash = ($8::bytea[])[ready.place], content = ($7::bytea[])[ready.place],
    seal = ($9::text[])[ready.place], flags = head.flags || ($10::text[])[ready.place]::jsonb
  FROM ready
  WHERE head.instance_uid = ready.instance_uid AND head.instance_uid = ANY ($5::uuid[])
  RETURNING ready.place, ready.job_key, head.instance_uid, head.version, head.hash
),
known AS (
  INSERT INTO verbworker.payload_version (instance_uid, hash, version, job_key, flags)
  SELECT instance_uid, hash, version, job_key, nullif(($10::text[])[place], '{}')::jsonb
  FROM moved
  ON CONFLICT (instance_uid, hash) DO NOTHING
),
popped AS (
  UPDATE verbworker.job_frame AS frame
  SET state = 'completed', outcome = 'complete', output = ($7::bytea[])[ready.place],
    output_hash = ($8::bytea[])[ready.place], output_seal = ($9::text[])[ready.place],
    flags = ($10::text[])[ready.place]::jsonb, correlation = ($11::text[])[ready.place]::jsonb,
    popped_at = clock_timestamp(), reported_at = NULL, acked_at = clock_timestamp(), ack_result = 'ok'
  FROM ready
  WHERE frame.engine_id = $1 AND frame.job_key = ready.job_key AND frame.job_key = ANY ($3::bigint[])
),
updated AS (
  UPDATE verbworker_engine.instance
  SET revision = instance.revision + 1, state = ($15::bytea[])[ready.place],
    variables = coalesce(($14::bytea[])[ready.place], instance.variables)
  FROM ready
  WHERE instance.instance_key = ANY ($12::bigint[]) AND instance.instance_key = ready.instance_key
    AND ready.ended = ''
),
removed AS (
  DELETE FROM verbworker_engine.instance
  USING ready
  WHERE instance.instance_key = ANY ($12::bigint[]) AND instance.instance_key = ready.instance_key
    AND ready.ended <> ''
  RETURNING instance.instance_key, instance.definition_key, instance.tenant_id, ready.ended,
    coalesce(($14::bytea[])[ready.place], instance.variables) AS variables, instance.created_at,
    ($15::bytea[])[ready.place] AS tokens
),
ended AS (
  INSERT INTO verbworker_engine.ended_instance (
    instance_key, definition_key, tenant_id, status, variables, created_at, ended_at, tokens
  )
  SELECT instance_key, definition_key, tenant_id, ended, variables, created_at, (SELECT now FROM clock), tokens
  FROM removed
),
job_made AS (
  INSERT INTO verbworker_engine.job (
    job_key, instance_key, tenant_id, case_tenant, type, element_id, element_instance_key, retries, headers, due_at,
    worker, activated_ms, claims
  )
  SELECT
    made.job_key, ready.instance_key, ready.tenant_id, made.case_tenant, made.type, made.element_id,
    made.element_instance_key, made.retries, made.headers,
    (SELECT now FROM clock) + made.timeout_ms * interval '1 millisecond', made.worker,
    CASE WHEN made.worker IS NULL THEN 0 ELSE (SELECT ms FROM clock) END, (made.worker IS NOT NULL)::integer
  FROM unnest(
    $17::bigint[], $18::text[], $19::text[], $20::bigint[], $21::integer[], $22::text[], $23::text[], $24::bigint[],
    $26::text[]
  ) AS made (job_key, type, element_id, element_instance_key, retries, headers, worker, timeout_ms, case_tenant)
  JOIN ready ON ready.instance_key = (made.job_key >> 20) << 20
),
job_gone AS (
  DELETE FROM verbworker_engine.job
  USING unnest($25::bigint[]) AS gone (job_key), ready
  WHERE job.job_key = ANY ($25::bigint[]) AND job.job_key = gone.job_key
    AND ready.instance_key = (gone.job_key >> 20) << 20
)
SELECT job_key, (SELECT ms FROM clock) AS at_ms
FROM ready;
