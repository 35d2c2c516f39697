-- name: open
-- Frames that may fall to the sweep one day. This reads every frame that is not archived, because an index that knew
-- them would be written with every job; so it is asked once per lease, and `take` looks at these keys in between.
SELECT job_key
FROM verbworker.job_frame
WHERE engine_id = $1 AND state <> 'completed' AND acked_at IS NULL AND (state <> 'incident' OR reported_at IS NULL)
ORDER BY lease_until
LIMIT $2;

-- name: take
-- Take the frames whose owner can neither finish nor report any more: a run whose lease is over, a failure or incident
-- that was not reported to the engine while the lease ran, and a reported failure that has not run again long after its
-- pause (the next worker died before its claim). The new epoch fences the old owner, and for the length of a lease no
-- other worker takes them. Every statement that locks several frames and waits takes them in key order; this one skips.
-- Frames of undos (`<engine>/undo`) are left alone: no engine delivers them. The delivery row of the compensate job
-- that walks them is swept instead, and its next delivery finds them with their lease over.
-- The result is the frame as it was before, except for its epoch.
WITH due AS (
  SELECT job_key, owner, lease_until
  FROM verbworker.job_frame
  WHERE engine_id = $1 AND job_key = ANY ($7::bigint[]) AND state <> 'completed' AND acked_at IS NULL
    AND lease_until < clock_timestamp() - $4::interval
    AND (
      state = 'started'
      OR (state = 'incident' AND reported_at IS NULL)
      OR (
        state = 'failed' AND next_retry_at <= clock_timestamp()
        AND (reported_at IS NULL OR next_retry_at < clock_timestamp() - $5::interval)
      )
    )
  ORDER BY lease_until
  LIMIT $6
  FOR UPDATE SKIP LOCKED
)
UPDATE verbworker.job_frame AS frame
SET epoch = frame.epoch + 1, owner = $2, lease_until = clock_timestamp() + $3,
  next_retry_at = CASE frame.state WHEN 'failed' THEN clock_timestamp() ELSE frame.next_retry_at END
FROM due
WHERE frame.engine_id = $1 AND frame.job_key = due.job_key
RETURNING
  frame.job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, mode, on_unknown, max_runs,
  idempotency_window, state, epoch, due.owner, due.lease_until, activated_ms, runs, retries_left, keyed_at,
  next_retry_at, input_hash, outcome, output, output_seal, flags, correlation, error_code, fail_class, fail_code,
  fail_text, reported_at, acked_at, clock_timestamp() AS now, false AS archived, entry_id;

-- name: run_again
-- Free abandoned runs for their next delivery. It costs no retry: the run is counted already.
WITH freed AS (
  UPDATE verbworker.job_frame AS frame
  SET state = 'failed', next_retry_at = clock_timestamp(), retries_left = greatest(frame.retries_left, 1),
    fail_class = 'TransientInfrastructure', fail_code = 'LeaseOver', fail_text = 'its worker stopped reporting',
    popped_at = clock_timestamp(), reported_at = NULL
  FROM unnest($3::bigint[], $4::bigint[], $5::text[]) AS item (job_key, epoch, detail)
  WHERE frame.engine_id = $1 AND frame.job_key = item.job_key AND frame.job_key = ANY ($3::bigint[])
    AND frame.owner = $2 AND frame.epoch = item.epoch AND frame.state = 'started'
  RETURNING frame.job_key, frame.epoch, item.detail
),
told AS (
  INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, owner, detail)
  SELECT $1, job_key, 'swept', epoch, $2, detail
  FROM freed
)
SELECT job_key
FROM freed;

-- name: hold
-- Stop an abandoned run for a person. One at a time: its entry gets an event in the same commit, and two batches would
-- lock entries in different orders.
WITH held AS (
  UPDATE verbworker.job_frame
  SET state = 'incident', fail_class = $5, fail_code = $6, fail_text = $7, popped_at = clock_timestamp(),
    reported_at = NULL
  WHERE engine_id = $1 AND job_key = $2 AND owner = $3 AND epoch = $4 AND state = 'started'
  RETURNING epoch
),
told AS (
  INSERT INTO verbworker.frame_event (engine_id, job_key, kind, epoch, owner, detail)
  SELECT $1, $2, 'swept', epoch, $3, $8
  FROM held
)
SELECT epoch
FROM held;

-- name: postpone
-- The engine did not take the report: the next sweep after the pause takes the frame again.
UPDATE verbworker.job_frame
SET lease_until = clock_timestamp() - $5::interval + $6::interval
WHERE engine_id = $1 AND job_key = $2 AND owner = $3 AND epoch = $4 AND state IN ('failed', 'incident');

-- name: ask
-- Frames that were reported to the engine and whose job may be gone: those of entries that have ended, undos too, and
-- after a while every one that waits for a person. Asking changes only the time of the next question.
WITH due AS (
  SELECT frame.engine_id, frame.job_key, instance.ended_at IS NOT NULL AS has_ended
  FROM verbworker.job_frame AS frame
  LEFT JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = frame.instance_uid
  WHERE frame.engine_id IN ($1, $1 || '/undo') AND frame.state <> 'completed' AND frame.acked_at IS NULL
    AND frame.lease_until < clock_timestamp() - $2::interval
    AND (frame.engine_id <> $1 OR (frame.state <> 'started' AND frame.reported_at IS NOT NULL))
    AND (
      instance.ended_at IS NOT NULL
      OR (frame.engine_id = $1 AND frame.state = 'incident' AND frame.reported_at < clock_timestamp() - $4::interval)
    )
  ORDER BY frame.lease_until
  LIMIT $5
  FOR UPDATE OF frame SKIP LOCKED
)
UPDATE verbworker.job_frame AS frame
SET lease_until = clock_timestamp() + CASE WHEN due.has_ended THEN $3::interval ELSE $4::interval END
FROM due
WHERE frame.engine_id = due.engine_id AND frame.job_key = due.job_key
RETURNING frame.engine_id, frame.job_key, frame.epoch, frame.verb, frame.instance_uid, frame.retries_left, coalesce((
  SELECT record.job_key
  FROM verbworker.compensation_record AS record
  WHERE frame.engine_id = $1 || '/undo' AND record.record_id = frame.job_key
), frame.job_key) AS asked_key;
