-- name: twins
-- Other frames of the same step: same instance, same element, and the same input unless the element is entered once ($6).
-- Those in the archive are found by the versions that they made. A step that ended by a BPMN error moved nothing, so its
-- element may be visited again with that input; a frame of a duplicate instance or of a late delivery ran nothing.
-- One counts when the input is of its version or a later one.
SELECT
  frame.job_key, frame.state::text, frame.mode::text, frame.on_unknown::text, frame.epoch, frame.runs,
  frame.lease_until >= clock_timestamp() AS is_live,
  frame.keyed_at > clock_timestamp() - frame.idempotency_window AS is_remembered, frame.fail_code, frame.keyed_at,
  frame.acked_at, frame.ack_result IS NOT DISTINCT FROM 'ok' AS is_confirmed, frame.process_instance_key, frame.activated_ms, coalesce((
    SELECT given.version >= made.version
    FROM verbworker.payload_version AS given, verbworker.payload_version AS made
    WHERE given.instance_uid = $2 AND given.hash = $5 AND made.instance_uid = $2 AND made.hash = frame.output_hash
  ), false) AS is_heard
FROM verbworker.job_frame AS frame
WHERE frame.instance_uid = $2 AND frame.engine_id = $1 AND frame.element_id = $4
  AND (frame.input_hash = $5 OR $6::boolean)
  AND frame.job_key <> $3 AND frame.outcome IS DISTINCT FROM 'bpmn_error' AND frame.repeats IS NULL
  AND frame.fail_code IS DISTINCT FROM 'DuplicateInstance'
  AND NOT (frame.state = 'failed' AND frame.fail_code IS NOT DISTINCT FROM 'StepMovedOn')
UNION ALL
SELECT
  old.job_key, old.state::text, old.mode::text, old.on_unknown::text, old.epoch, old.runs, false, true,
  old.fail_code, old.keyed_at, old.acked_at, old.ack_result IS NOT DISTINCT FROM 'ok', old.process_instance_key,
  old.activated_ms, coalesce((
    SELECT given.version >= version.version
    FROM verbworker.payload_version AS given
    WHERE given.instance_uid = $2 AND given.hash = $5
  ), false)
FROM verbworker.payload_version AS version
JOIN verbworker.job_frame_archive AS old ON old.engine_id = $1 AND old.job_key = version.job_key
WHERE version.instance_uid = $2 AND old.instance_uid = $2 AND old.element_id = $4
  AND (old.input_hash = $5 OR $6::boolean)
  AND old.state = 'completed' AND old.outcome = 'complete' AND old.repeats IS NULL
  AND NOT EXISTS (
    -- A frame stays in both tables for a moment. One whose key the engine gave out again is in the archive alone.
    SELECT 1
    FROM verbworker.job_frame AS frame
    WHERE frame.engine_id = old.engine_id AND frame.job_key = old.job_key
      AND frame.process_instance_key = old.process_instance_key
      AND frame.element_instance_key = old.element_instance_key
      -- The engine may give all of these out again, in the order in which it gave them out before.
      AND frame.instance_uid = old.instance_uid
  );

-- name: thrown
-- Calls of this step that ended by a BPMN error under other keys. They left the payload as it was, so the same input may
-- be another visit of the element. A transactional verb that threw has rolled back, and may run again.
SELECT frame.job_key, frame.acked_at IS NOT NULL AS is_answered, frame.ack_result IS NOT DISTINCT FROM 'ok' AS is_confirmed
FROM verbworker.job_frame AS frame
WHERE frame.instance_uid = $2 AND frame.engine_id = $1 AND frame.element_id = $4
  AND (frame.input_hash = $5 OR $6::boolean)
  AND frame.job_key <> $3 AND frame.state = 'completed' AND frame.outcome = 'bpmn_error' AND frame.mode = 'external'
ORDER BY frame.keyed_at DESC;

-- name: follow
-- Call the outside under the idempotency key of another job of the same step.
UPDATE verbworker.job_frame AS frame
SET idempotency_key = other.idempotency_key, keyed_at = other.keyed_at
FROM verbworker.job_frame AS other
WHERE frame.engine_id = $1 AND frame.job_key = $2 AND frame.owner = $3 AND frame.epoch = $4 AND frame.state = 'started'
  AND other.engine_id = $1 AND other.job_key = $5
RETURNING frame.idempotency_key;

-- name: repeat
-- Complete a frame with the verdict of another job of the same step. The payload's head moved when that one was stored.
WITH done AS (
  SELECT output, output_hash, output_seal, flags, correlation, 1 AS place
  FROM verbworker.job_frame
  WHERE engine_id = $1 AND job_key = $5 AND state = 'completed'
  UNION ALL
  SELECT output, output_hash, output_seal, flags, correlation, 2 AS place
  FROM verbworker.job_frame_archive
  WHERE engine_id = $1 AND job_key = $5 AND state = 'completed'
  ORDER BY place
  LIMIT 1
)
UPDATE verbworker.job_frame AS frame
SET state = 'completed', outcome = 'complete', output = done.output, output_hash = done.output_hash,
  output_seal = done.output_seal, flags = done.flags, correlation = done.correlation, repeats = $5,
  popped_at = clock_timestamp(), reported_at = NULL
FROM done
WHERE frame.engine_id = $1 AND frame.job_key = $2 AND frame.owner = $3 AND frame.epoch = $4 AND frame.state = 'started'
RETURNING frame.output, frame.output_seal, frame.flags, frame.correlation;

-- name: succeed
-- Go on with a step under a new job key where another job of it stopped: the old frame is closed and fenced, and the
-- outside sees the same idempotency key. Returns no row when the old frame is not as it was seen.
WITH closed AS (
  UPDATE verbworker.job_frame
  SET state = 'failed', epoch = epoch + 1, retries_left = greatest(retries_left, 1), next_retry_at = clock_timestamp(),
    fail_class = 'TransientInfrastructure', fail_code = 'StepSucceeded',
    fail_text = 'the step goes on under job ' || $2::bigint, popped_at = clock_timestamp(),
    acked_at = coalesce(acked_at, clock_timestamp()), ack_result = 'gone'
  WHERE engine_id = $1 AND job_key = $5 AND epoch = $6 AND state <> 'completed'
    AND (state <> 'started' OR lease_until < clock_timestamp())
  RETURNING idempotency_key, keyed_at
)
UPDATE verbworker.job_frame AS frame
SET idempotency_key = closed.idempotency_key, keyed_at = closed.keyed_at
FROM closed
WHERE frame.engine_id = $1 AND frame.job_key = $2 AND frame.owner = $3 AND frame.epoch = $4 AND frame.state = 'started'
RETURNING frame.idempotency_key;

-- name: is_cleared
-- Whether a person has released this frame after it was held because its step could be another's.
SELECT fail_code = 'StepAmbiguous' AS is_cleared
FROM verbworker.job_frame
WHERE engine_id = $1 AND job_key = $2;
