-- name: open
-- Open the frames of new jobs (T1): nearly every delivery, in a statement as short as it can be,
-- because Postgres pays for each clause of a plan whenever it runs. A job that has a frame, or had one, returns no row:
-- then `push` decides. What a job shares with others of its kind ($13 to $22) is passed once per kind.
-- Rows come in key order, so that two batches cannot deadlock. OFFSET 0 keeps Postgres from reading a table as a whole
-- that it takes for a small one.
WITH claimed AS (
  INSERT INTO verbworker.job_frame (
    engine_id, job_key, process_instance_key, element_instance_key, instance_uid, entry_id, idempotency_key,
    activated_ms, input_hash, verb, tenant_id, process_id, process_version, element_id, mode, on_unknown, max_runs,
    idempotency_window, retries_left, owner, lease_until
  )
  SELECT
    $1, job_key, process_instance_key, element_instance_key, instance_uid, entry_id, idempotency_key,
    activated_ms, input_hash, ($13::text[])[kind], ($14::text[])[kind], ($15::text[])[kind], ($16::integer[])[kind],
    ($17::text[])[kind], ($18::text[])[kind]::verbworker.frame_mode, ($19::text[])[kind]::verbworker.frame_doubt,
    ($20::integer[])[kind], ($21::interval[])[kind], ($22::integer[])[kind], $2, clock_timestamp() + $3
  FROM unnest(
    $4::bigint[], $5::bigint[], $6::bigint[], $7::uuid[], $8::uuid[], $9::text[], $10::bigint[], $11::bytea[],
    $12::integer[]
  ) AS delivery (
    job_key, process_instance_key, element_instance_key, instance_uid, entry_id, idempotency_key, activated_ms,
    input_hash, kind
  )
  WHERE NOT $23::boolean OR NOT EXISTS (
    SELECT 1
    FROM verbworker.job_frame_archive AS old
    WHERE old.engine_id = $1 AND old.job_key = delivery.job_key
      AND old.process_instance_key = delivery.process_instance_key
      AND old.element_instance_key = delivery.element_instance_key
      AND old.instance_uid IS NOT DISTINCT FROM delivery.instance_uid
  )
  ON CONFLICT (engine_id, job_key) DO NOTHING
  RETURNING job_key, first_run_at, lease_until, instance_uid, input_hash, element_id
)
SELECT
  claimed.job_key, claimed.first_run_at, claimed.lease_until, clock_timestamp() AS now,
  known.tenant_id, known.entry_id, known.workflow_verb, known.verb_version, known.instance_engine_id,
  known.instance_key, known.definition_key, known.correlation, known.instance_status,
  known.instance_uid IS NOT NULL AS correlated,
  CASE WHEN known.hash IS NOT DISTINCT FROM claimed.input_hash THEN known.version ELSE (
    SELECT version.version
    FROM verbworker.payload_version AS version
    WHERE version.instance_uid = claimed.instance_uid AND version.hash = claimed.input_hash
    OFFSET 0
  ) END AS input_version, known.unversioned_until, known.flags,
  known.hash IS NOT DISTINCT FROM claimed.input_hash AS input_is_head,
  (
    -- True for another job of the same step, false for one of the same element with another input.
    SELECT bool_or(other.input_hash = claimed.input_hash)
    FROM verbworker.job_frame AS other
    WHERE other.instance_uid = claimed.instance_uid AND other.element_id = claimed.element_id
      AND other.engine_id = $1 AND other.job_key <> claimed.job_key
  ) AS has_twin,
  -- No frame leaves the hot table sooner.
  known.created_at < clock_timestamp() - interval '1 minute' AS is_instance_old
FROM claimed
LEFT JOIN LATERAL (
  SELECT
    instance.instance_uid, instance.tenant_id, instance.entry_id, instance.verb AS workflow_verb,
    instance.verb_version, instance.engine_id AS instance_engine_id, instance.instance_key, instance.definition_key,
    instance.correlation, instance.status AS instance_status, instance.created_at, head.hash, head.version,
    head.unversioned_until, head.flags
  FROM verbworker.workflow_instance AS instance
  LEFT JOIN verbworker.payload_head AS head ON head.instance_uid = instance.instance_uid
  WHERE instance.instance_uid = claimed.instance_uid
  OFFSET 0
) AS known ON true;

-- name: push
-- Take over the frames that may be taken (T2, T3, T12), for deliveries that `open` did not take; one that vanished
-- meanwhile is opened (T1). A delivery whose frame may not be claimed returns no row. Rows go in key order, so that two
-- batches cannot deadlock.
WITH item AS (
  SELECT *
  FROM unnest(
    $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::uuid[], $10::text[], $11::integer[],
    $12::text[], $13::uuid[], $14::text[], $15::text[], $16::integer[], $17::interval[], $18::text[],
    $19::bigint[], $20::integer[], $21::bytea[]
  ) AS delivery (
    job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, process_id, process_version,
    element_id, entry_id, mode, on_unknown, max_runs, idempotency_window, idempotency_key,
    activated_ms, retries_left, input_hash
  )
  ORDER BY job_key
),
claimed AS (
  INSERT INTO verbworker.job_frame AS frame (
    engine_id, job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, process_id,
    process_version, element_id, entry_id, mode, on_unknown, max_runs, idempotency_window, idempotency_key,
    activated_ms, retries_left, input_hash, owner, lease_until
  )
  SELECT
    $1, job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, process_id,
    process_version, element_id, entry_id, mode::verbworker.frame_mode, on_unknown::verbworker.frame_doubt, max_runs,
    idempotency_window, idempotency_key, activated_ms, retries_left, input_hash, $2, clock_timestamp() + $3
  FROM item
  WHERE NOT $22::boolean OR NOT EXISTS (
    SELECT 1
    FROM verbworker.job_frame_archive AS old
    WHERE old.engine_id = $1 AND old.job_key = item.job_key
      AND old.process_instance_key = item.process_instance_key
      AND old.element_instance_key = item.element_instance_key
      AND old.instance_uid IS NOT DISTINCT FROM item.instance_uid
  )
  ON CONFLICT (engine_id, job_key) DO UPDATE SET
    state = 'started',
    epoch = frame.epoch + 1,
    owner = excluded.owner,
    lease_until = excluded.lease_until,
    activated_ms = excluded.activated_ms,
    claimed_from = CASE frame.state
      WHEN 'failed' THEN 'retry'::verbworker.frame_origin
      WHEN 'started' THEN 'takeover'
      ELSE 'release'
    END,
    deliveries = frame.deliveries + 1,
    runs = CASE frame.state WHEN 'incident' THEN 1 ELSE frame.runs + 1 END,
    infra_runs = CASE frame.state WHEN 'incident' THEN 0 ELSE frame.infra_runs END,
    retries_left = CASE frame.state WHEN 'incident' THEN excluded.retries_left ELSE frame.retries_left END,
    first_run_at = CASE frame.state WHEN 'incident' THEN clock_timestamp() ELSE frame.first_run_at END,
    mode = excluded.mode,
    on_unknown = excluded.on_unknown,
    max_runs = excluded.max_runs,
    idempotency_window = excluded.idempotency_window,
    process_id = excluded.process_id,
    process_version = excluded.process_version,
    element_id = excluded.element_id,
    input_hash = excluded.input_hash,
    next_retry_at = NULL,
    reported_at = NULL,
    acked_at = NULL,
    ack_result = NULL
  WHERE frame.process_instance_key = excluded.process_instance_key
    AND frame.element_instance_key = excluded.element_instance_key
    AND frame.verb = excluded.verb
    AND frame.tenant_id = excluded.tenant_id
    AND frame.instance_uid IS NOT DISTINCT FROM excluded.instance_uid
    AND excluded.activated_ms > frame.activated_ms
    AND (
      (
        frame.state = 'failed' AND frame.next_retry_at <= clock_timestamp()
        -- Closed as gone, and back again: it may have been held before, so only what may be repeated runs.
        AND (
          frame.acked_at IS NULL
          OR frame.mode = 'transactional'
          OR (frame.on_unknown <> 'hold' AND frame.keyed_at > clock_timestamp() - frame.idempotency_window)
        )
      )
      OR (
        frame.state = 'started'
        AND frame.lease_until < clock_timestamp()
        AND frame.runs < frame.max_runs
        AND (
          frame.mode = 'transactional'
          OR (
            frame.on_unknown <> 'hold'
            AND frame.keyed_at > clock_timestamp() - frame.idempotency_window
          )
        )
      )
      OR (
        frame.state = 'incident'
        AND excluded.activated_ms > extract(epoch FROM frame.reported_at + interval '5 seconds') * 1000
      )
    )
  RETURNING
    job_key, epoch, owner, claimed_from, runs, retries_left, generation, idempotency_key, first_run_at,
    lease_until, deliveries, instance_uid, input_hash
),
told AS (
  -- Only a claim that followed another is recorded; the subquery still sees the frame as it was before.
  INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, owner, detail)
  SELECT $1, job_key, claimed_from::text, epoch, owner, coalesce((
    SELECT jsonb_build_object('run', claimed.runs, 'from', old.owner, 'lease_until', old.lease_until)
    FROM verbworker.job_frame AS old
    WHERE old.engine_id = $1 AND old.job_key = claimed.job_key
  )::text, '')
  FROM claimed
  WHERE claimed_from <> 'new'
)
SELECT
  claimed.job_key, claimed.epoch, claimed.owner, claimed.claimed_from::text, claimed.runs, claimed.retries_left,
  claimed.generation, claimed.idempotency_key, claimed.first_run_at, claimed.lease_until, claimed.deliveries,
  clock_timestamp() AS now,
  known.tenant_id, known.entry_id, known.workflow_verb, known.verb_version, known.instance_engine_id,
  known.instance_key, known.definition_key, known.correlation, known.instance_status,
  known.instance_uid IS NOT NULL AS correlated,
  CASE WHEN known.hash IS NOT DISTINCT FROM claimed.input_hash THEN known.version ELSE (
    SELECT version.version
    FROM verbworker.payload_version AS version
    WHERE version.instance_uid = claimed.instance_uid AND version.hash = claimed.input_hash
    OFFSET 0
  ) END AS input_version, known.unversioned_until, known.flags,
  known.hash IS NOT DISTINCT FROM claimed.input_hash AS input_is_head
FROM claimed
LEFT JOIN LATERAL (
  SELECT
    instance.instance_uid, instance.tenant_id, instance.entry_id, instance.verb AS workflow_verb,
    instance.verb_version, instance.engine_id AS instance_engine_id, instance.instance_key, instance.definition_key,
    instance.correlation, instance.status AS instance_status, head.hash, head.version,
    head.unversioned_until, head.flags
  FROM verbworker.workflow_instance AS instance
  LEFT JOIN verbworker.payload_head AS head ON head.instance_uid = instance.instance_uid
  WHERE instance.instance_uid = claimed.instance_uid
  OFFSET 0
) AS known ON true;

-- name: resume
-- A claim of ours whose answer was lost on the way back, read as `push` would have returned it.
SELECT
  frame.job_key, frame.epoch, frame.owner, frame.claimed_from::text, frame.runs, frame.retries_left,
  frame.generation, frame.idempotency_key, frame.first_run_at, frame.lease_until, frame.deliveries,
  clock_timestamp() AS now,
  instance.instance_uid IS NOT NULL AS correlated,
  instance.tenant_id, instance.entry_id, instance.verb AS workflow_verb, instance.verb_version,
  instance.engine_id AS instance_engine_id, instance.instance_key, instance.definition_key, instance.correlation,
  instance.status AS instance_status,
  CASE WHEN head.hash IS NOT DISTINCT FROM frame.input_hash THEN head.version ELSE (
    SELECT version.version
    FROM verbworker.payload_version AS version
    WHERE version.instance_uid = frame.instance_uid AND version.hash = frame.input_hash
  ) END AS input_version, head.unversioned_until, head.flags,
  head.hash IS NOT DISTINCT FROM frame.input_hash AS input_is_head
FROM verbworker.job_frame AS frame
LEFT JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = frame.instance_uid
LEFT JOIN verbworker.payload_head AS head ON head.instance_uid = frame.instance_uid
WHERE frame.engine_id = $1 AND frame.job_key = $2 AND frame.owner = $3 AND frame.state = 'started';

-- name: observe
-- Count a delivery that was not claimed and read the frame that blocks it.
UPDATE verbworker.job_frame
SET deliveries = deliveries + 1
WHERE engine_id = $1 AND job_key = $2
RETURNING
  job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, mode, on_unknown, max_runs,
  idempotency_window, state, epoch, owner, lease_until, activated_ms, runs, retries_left, keyed_at, next_retry_at,
  input_hash, outcome, output, output_seal, flags, correlation, error_code, fail_class, fail_code, fail_text,
  reported_at, acked_at, clock_timestamp() AS now, false AS archived;

-- name: read
-- One frame in its current state.
SELECT
  job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, mode, on_unknown, max_runs,
  idempotency_window, state, epoch, owner, lease_until, activated_ms, runs, retries_left, keyed_at, next_retry_at,
  input_hash, outcome, output, output_seal, flags, correlation, error_code, fail_class, fail_code, fail_text,
  reported_at, acked_at, clock_timestamp() AS now, false AS archived
FROM verbworker.job_frame
WHERE engine_id = $1 AND job_key = $2;

-- name: read_archived
-- A frame that left the hot table: an engine restored from a backup may deliver its job again.
SELECT
  job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, mode, on_unknown, max_runs,
  idempotency_window, state, epoch, owner, lease_until, activated_ms, runs, retries_left, keyed_at, next_retry_at,
  input_hash, outcome, output, output_seal, flags, correlation, error_code, fail_class, fail_code, fail_text,
  reported_at, acked_at, clock_timestamp() AS now, true AS archived
FROM verbworker.job_frame_archive
WHERE engine_id = $1 AND job_key = $2
ORDER BY acked_at DESC
LIMIT 1;

-- name: settle
-- After a lost connection: wait for our own transaction to end, one way or the other, and read what it left (C5).
SELECT state, epoch, owner
FROM verbworker.job_frame
WHERE engine_id = $1 AND job_key = $2
FOR UPDATE;

-- name: heartbeat
-- Extend the leases of everything one process runs (T4). A frame locked right now is being finished: it is skipped
-- here, so that heartbeats never wait and never deadlock with a POP.
WITH mine AS (
  SELECT item.job_key
  FROM unnest($4::bigint[], $5::bigint[]) AS item (job_key, epoch)
  CROSS JOIN LATERAL (
    SELECT 1
    FROM verbworker.job_frame AS frame
    WHERE frame.engine_id = $1 AND frame.job_key = item.job_key
      AND frame.owner = $2 AND frame.epoch = item.epoch AND frame.state = 'started'
    FOR UPDATE SKIP LOCKED
  ) AS held
)
UPDATE verbworker.job_frame
SET lease_until = clock_timestamp() + $3
WHERE engine_id = $1 AND job_key = ANY (ARRAY(SELECT job_key FROM mine))
RETURNING job_key;

-- name: still_mine
-- Of the frames a heartbeat did not reach: those that are ours all the same.
SELECT job_key
FROM verbworker.job_frame
WHERE engine_id = $1 AND job_key = ANY ($3::bigint[]) AND owner = $2
  AND epoch = ($4::bigint[])[array_position($3::bigint[], job_key)];

-- name: pop_completed
-- Store the verdicts of a batch and move each instance's payload head (T5). A frame that another claim owns returns no
-- row, nor does one whose instance is pinned to another engine instance; one whose head moved since its input returns
-- popped = false and is merged by the caller.
-- Frames are locked in the order of the arguments, which is key order, and heads in the order of their instances. The
-- bytes are taken out of the arguments by position only where they are stored: a row that held them would be copied
-- by every step.
WITH mine AS (
  SELECT item.place, item.job_key
  FROM unnest($3::bigint[], $4::bigint[]) WITH ORDINALITY AS item (job_key, epoch, place)
  CROSS JOIN LATERAL (
    SELECT 1
    FROM verbworker.job_frame AS frame
    WHERE frame.engine_id = $1 AND frame.job_key = item.job_key
      AND frame.owner = $2 AND frame.epoch = item.epoch AND frame.state = 'started'
      AND frame.instance_uid = ($5::uuid[])[item.place] AND frame.process_instance_key = (
        SELECT instance.instance_key
        FROM verbworker.workflow_instance AS instance
        WHERE instance.instance_uid = frame.instance_uid
      )
    FOR UPDATE
  ) AS held
),
moved AS (
  UPDATE verbworker.payload_head AS head
  SET version = head.version + 1, hash = ($8::bytea[])[ready.place], content = ($7::bytea[])[ready.place],
    seal = ($9::text[])[ready.place], flags = head.flags || ($10::text[])[ready.place]::jsonb
  FROM (SELECT place, job_key, ($5::uuid[])[place] AS instance_uid FROM mine ORDER BY instance_uid) AS ready
  WHERE head.instance_uid = ready.instance_uid AND head.instance_uid = ANY ($5::uuid[])
    AND head.hash = ($6::bytea[])[ready.place]
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
  SET state = 'completed', outcome = 'complete', output = ($7::bytea[])[moved.place],
    output_hash = ($8::bytea[])[moved.place], output_seal = ($9::text[])[moved.place],
    flags = ($10::text[])[moved.place]::jsonb, correlation = ($11::text[])[moved.place]::jsonb,
    popped_at = clock_timestamp(), reported_at = NULL
  FROM moved
  WHERE frame.engine_id = $1 AND frame.job_key = moved.job_key AND frame.job_key = ANY ($3::bigint[])
  RETURNING frame.job_key
)
SELECT mine.job_key, popped.job_key IS NOT NULL AS popped
FROM mine
LEFT JOIN popped ON popped.job_key = mine.job_key;

-- name: pop_one
-- Store one verdict, in the transaction of its verb or by itself (T5). Null when it is fenced, false when the head moved.
SELECT verbworker.pop_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS popped;

-- name: pop_variables
-- Store the variables that a plain job answered (T5). Its process is not ours: there is no instance and no payload head.
UPDATE verbworker.job_frame
SET state = 'completed', outcome = 'complete', output = $5, output_hash = $6, output_seal = $7, flags = '{}',
  correlation = '{}', popped_at = clock_timestamp(), reported_at = NULL
WHERE engine_id = $1 AND job_key = $2 AND owner = $3 AND epoch = $4 AND state = 'started'
RETURNING job_key;

-- name: correlate
-- Note the correlation keys that verdicts brought, in their transaction. Existing ones stay.
UPDATE verbworker.workflow_instance
SET correlation = $2::jsonb || correlation
WHERE instance_uid = $1;

-- name: pop_thrown
-- Store a business verdict: the engine gets a BPMN error, now or by the relay (T5).
UPDATE verbworker.job_frame
SET state = 'completed', outcome = 'bpmn_error', error_code = $5, fail_class = 'PermanentBusiness', fail_code = $5,
  fail_text = $6, popped_at = clock_timestamp(), reported_at = NULL
WHERE engine_id = $1 AND job_key = $2 AND owner = $3 AND epoch = $4 AND state = 'started'
RETURNING job_key;

-- name: pop_failed
-- Record a failed run and when the next may begin (T6). One retry is spent.
WITH popped AS (
  UPDATE verbworker.job_frame
  SET state = 'failed', retries_left = retries_left - 1, next_retry_at = clock_timestamp() + $5, fail_class = $6,
    fail_code = $7, fail_text = $8, popped_at = clock_timestamp(), reported_at = NULL
  WHERE engine_id = $1 AND job_key = $2 AND owner = $3 AND epoch = $4 AND state = 'started'
  RETURNING retries_left, next_retry_at
),
told AS (
  INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, owner, detail)
  SELECT $1, $2, 'failed', $4, $3, jsonb_build_object(
    'class', $6::text, 'code', $7::text, 'text', $8::text, 'retries_left', retries_left, 'next', next_retry_at)
  FROM popped
)
SELECT retries_left
FROM popped;

-- name: pop_yielded
-- Give a run back that our own infrastructure stopped (T14): it counts as infrastructure, not as a run or a retry.
WITH popped AS (
  UPDATE verbworker.job_frame
  SET state = 'failed', runs = runs - 1, infra_runs = infra_runs + 1, next_retry_at = clock_timestamp() + $5,
    fail_class = 'TransientInfrastructure', fail_code = $6, fail_text = $7, popped_at = clock_timestamp(),
    reported_at = NULL
  WHERE engine_id = $1 AND job_key = $2 AND owner = $3 AND epoch = $4 AND state = 'started' AND infra_runs < $8
  RETURNING retries_left, next_retry_at
),
told AS (
  INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, owner, detail)
  SELECT $1, $2, 'yielded', $4, $3, jsonb_build_object(
    'code', $6::text, 'text', $7::text, 'retries_left', retries_left, 'next', next_retry_at)
  FROM popped
)
SELECT retries_left
FROM popped;

-- name: pop_incident
-- Stop a run for a person (T7). As in the engine, no retry is left: a release grants new ones.
WITH popped AS (
  UPDATE verbworker.job_frame
  SET state = 'incident', retries_left = 0, fail_class = $5, fail_code = $6, fail_text = $7, popped_at = clock_timestamp(),
    reported_at = NULL
  WHERE engine_id = $1 AND job_key = $2 AND owner = $3 AND epoch = $4 AND state = 'started'
  RETURNING retries_left
),
told AS (
  INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, owner, detail)
  SELECT $1, $2, 'incident', $4, $3, jsonb_build_object('class', $5::text, 'code', $6::text, 'text', $7::text)
  FROM popped
)
SELECT retries_left
FROM popped;

-- name: close
-- The engine has no such job any more, so no answer of ours can reach it: the frame counts as acknowledged and is
-- archived like any other. It is no verdict: a job that comes back all the same is claimed anew while the frame is here.
WITH closed AS (
  UPDATE verbworker.job_frame
  SET state = 'failed', epoch = epoch + 1, owner = $4, fail_class = 'TransientInfrastructure', fail_code = $5,
    fail_text = $6, retries_left = greatest(retries_left, 1), next_retry_at = clock_timestamp(),
    popped_at = coalesce(popped_at, clock_timestamp()), acked_at = clock_timestamp(), ack_result = 'gone'
  WHERE engine_id = $1 AND job_key = $2 AND epoch = $3 AND state <> 'completed' AND acked_at IS NULL
  RETURNING epoch
),
noted AS (
  INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, owner, detail)
  SELECT $1, $2, 'closed', epoch, $4, jsonb_build_object('code', $5::text, 'text', $6::text)
  FROM closed
)
SELECT epoch
FROM closed;

-- name: hold
-- Stop a frame whose owner vanished: too many runs, or an outcome that must not be repeated (T8, T9).
WITH held AS (
  UPDATE verbworker.job_frame
  SET state = 'incident', epoch = epoch + 1, owner = $3, activated_ms = $5, fail_class = 'PermanentContract',
    fail_code = $6, fail_text = $7, popped_at = clock_timestamp(), reported_at = NULL
  WHERE engine_id = $1 AND job_key = $2 AND state = 'started' AND epoch = $4 AND lease_until < clock_timestamp()
    AND activated_ms < $5
  RETURNING epoch
),
told AS (
  INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, owner, detail)
  SELECT $1, $2, 'held', epoch, $3, (
    SELECT jsonb_build_object(
      'code', $6::text, 'text', $7::text, 'from', old.owner, 'lease_until', old.lease_until, 'runs', old.runs)
    FROM verbworker.job_frame AS old
    WHERE old.engine_id = $1 AND old.job_key = $2
  )
  FROM held
)
SELECT epoch
FROM held;

-- name: reported
-- The engine accepted our FailJob (T10); before that nothing may count as reported.
WITH heard AS (
  UPDATE verbworker.job_frame
  SET reported_at = clock_timestamp()
  WHERE engine_id = $1 AND job_key = $2 AND epoch = $3 AND state IN ('failed', 'incident')
  RETURNING job_key, state
),
told AS (
  INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, owner, detail)
  SELECT $1, job_key, 'reported', $3, $4, jsonb_build_object('state', state)
  FROM heard
)
SELECT job_key
FROM heard;

-- name: acknowledge
-- The engine has the verdicts of a batch (T11). Losing this is harmless: the relay sends them again and gets "gone".
-- Rows are locked in the order of the arguments: key order, as by every statement that waits for several.
WITH due AS (
  SELECT item.job_key
  FROM unnest($2::bigint[]) AS item (job_key)
  CROSS JOIN LATERAL (
    SELECT 1
    FROM verbworker.job_frame AS frame
    WHERE frame.engine_id = $1 AND frame.job_key = item.job_key AND frame.state = 'completed'
      AND frame.acked_at IS NULL
    FOR UPDATE
  ) AS held
)
UPDATE verbworker.job_frame
SET acked_at = clock_timestamp(), ack_result = $3
WHERE engine_id = $1 AND job_key = ANY (ARRAY(SELECT job_key FROM due));

-- name: relay
-- Verdicts the engine has not acknowledged, each offered to one relay at a time; those never offered come first, so
-- that verdicts which the engine keeps refusing cannot starve the rest.
WITH due AS (
  SELECT engine_id, job_key
  FROM verbworker.job_frame
  WHERE engine_id = $1 AND state = 'completed' AND acked_at IS NULL
    AND popped_at < clock_timestamp() - $2::interval
    AND (relay_at IS NULL OR relay_at < clock_timestamp())
  ORDER BY relay_at NULLS FIRST
  LIMIT $4
  FOR UPDATE SKIP LOCKED
)
UPDATE verbworker.job_frame AS frame
SET relay_at = clock_timestamp() + $3
FROM due
WHERE frame.engine_id = due.engine_id AND frame.job_key = due.job_key
RETURNING frame.job_key, frame.outcome::text, frame.output, frame.output_seal, frame.flags, frame.correlation,
  frame.error_code, frame.fail_text, frame.verb;

-- name: release
-- A person lets a held frame run again (T12); with a new key it runs as new (T13). Only a new key opens a new window.
WITH freed AS (
  UPDATE verbworker.job_frame
  SET state = 'failed', next_retry_at = clock_timestamp(), retries_left = greatest(retries_left, $4), runs = 0,
    infra_runs = 0, generation = generation + $5::integer, idempotency_key = coalesce($6, idempotency_key),
    first_run_at = clock_timestamp(), keyed_at = CASE WHEN $6 IS NULL THEN keyed_at ELSE clock_timestamp() END
  WHERE engine_id = $1 AND job_key = $2 AND epoch = $3 AND state = 'incident'
  RETURNING retries_left, generation, idempotency_key
),
told AS (
  INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, detail)
  SELECT $1, $2, 'released', $3, jsonb_build_object(
    'by', $7::text, 'reason', $8::text, 'retries_left', retries_left, 'as_new', $5::integer > 0)
  FROM freed
)
SELECT retries_left, generation
FROM freed;

-- name: archive_months
-- The partitions that the frames to be archived now will need; an hour ahead, so that none is missing a moment later.
SELECT verbworker.ensure_archive_month(month)
FROM (
  SELECT DISTINCT date_trunc('month', acked_at, 'UTC') AS month
  FROM verbworker.job_frame
  WHERE acked_at < clock_timestamp() - $1::interval + interval '1 hour'
) AS due;

-- name: archive
-- Copy acknowledged frames into the archive, a bounded number at a time. They stay in the hot table until `prune`.
SELECT verbworker.archive_frames($1, $2) AS copied;

-- name: prune
-- Take frames out of the hot table whose copy every running `push` can see. Copying and deleting in one commit would
-- let a push that started before it find the job in neither place and run it again.
SELECT verbworker.prune_frames($1, $2) AS pruned;

-- name: note
-- Keep what happened to a frame beyond the ordinary, for `frames explain`.
INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, owner, detail)
VALUES ($1, $2, $3, $4, $5, $6);

-- name: quarantine
-- A delivery under an old key whose identity differs: both sides are kept, nothing is replayed.
INSERT INTO verbworker.frame_conflict (engine_id, job_key, frame, delivery)
SELECT $1, $2, coalesce((
  SELECT jsonb_build_object(
    'process_instance_key', process_instance_key, 'element_instance_key', element_instance_key, 'verb', verb,
    'tenant_id', tenant_id, 'instance_uid', instance_uid)
  FROM (
    SELECT process_instance_key, element_instance_key, verb, tenant_id, instance_uid, 1 AS place
    FROM verbworker.job_frame
    WHERE engine_id = $1 AND job_key = $2
    UNION ALL
    SELECT process_instance_key, element_instance_key, verb, tenant_id, instance_uid, 2 AS place
    FROM verbworker.job_frame_archive
    WHERE engine_id = $1 AND job_key = $2
  ) AS standing
  ORDER BY place
  LIMIT 1
), '{}'), $3::jsonb;

-- name: displace
-- Move a frame out of the way of a job that the engine gave its key to. Only one that is acknowledged is moved, and the
-- archive keeps it: its step may be handed out again under another key.
SELECT moved.job_key
FROM verbworker.displace_frame($1, $2, $3) AS moved (job_key)
WHERE moved.job_key IS NOT NULL;

-- name: reopen
-- A frame for the job that has the key now, to be claimed by the next push. Its epoch goes on from the old frame's, so
-- that a worker which still runs the old job is fenced.
INSERT INTO verbworker.job_frame (
  engine_id, owner, epoch, job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, process_id,
  process_version, element_id, entry_id, mode, on_unknown, max_runs, idempotency_window, idempotency_key, activated_ms,
  retries_left, input_hash, state, lease_until, next_retry_at, runs, deliveries
)
VALUES (
  $1, $2, $3 + 1, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14::text::verbworker.frame_mode,
  $15::text::verbworker.frame_doubt, $16, $17, $18, $19::bigint - 1, greatest($20, 1), $21, 'failed', clock_timestamp(),
  clock_timestamp(), 0, 0
);

-- name: boot
-- Give this process a name that `frames explain` can show.
INSERT INTO verbworker.worker_boot (owner, name, host, pid, engine_id, leases)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (owner) DO NOTHING;

-- name: seen
-- This process is alive: its name is still needed, and its engine has a worker.
UPDATE verbworker.worker_boot
SET seen_at = clock_timestamp()
WHERE owner = $1;

-- name: left
-- This process takes no more jobs.
UPDATE verbworker.worker_boot
SET ended_at = clock_timestamp()
WHERE owner = $1;

-- name: held
-- How many frames wait for a person, those of undos too, and how many verdicts wait for the engine.
-- A case that has ended is not waited for.
SELECT
  count(*) FILTER (WHERE state = 'incident' AND NOT EXISTS (
    SELECT 1
    FROM verbworker.workflow_instance AS instance
    WHERE instance.instance_uid = frame.instance_uid AND instance.ended_at IS NOT NULL
  )) AS held,
  count(*) FILTER (WHERE state = 'completed' AND acked_at IS NULL) AS unacknowledged,
  coalesce(extract(epoch FROM max(clock_timestamp() - popped_at)
    FILTER (WHERE state = 'completed' AND acked_at IS NULL)), 0)::float8 AS oldest_unacknowledged
FROM verbworker.job_frame AS frame
WHERE engine_id IN ($1, $1 || '/undo');
