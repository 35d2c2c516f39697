-- name: frame
-- One frame for a person: everything but the payload itself. The hot table is asked first, then the archive.
SELECT
  job_key, process_id, process_version, element_id, process_instance_key, element_instance_key, verb, tenant_id,
  instance_uid, entry_id, mode, on_unknown, max_runs, idempotency_key, generation, state, epoch, owner, lease_until,
  deliveries, runs, infra_runs, retries_left, next_retry_at, outcome, octet_length(output) AS output_bytes,
  output_seal, flags, error_code, fail_class, fail_code, fail_text, reported_at, acked_at, ack_result, pushed_at,
  popped_at, clock_timestamp() AS now, false AS archived
FROM verbworker.job_frame
WHERE engine_id = $1 AND job_key = $2
UNION ALL
SELECT
  job_key, process_id, process_version, element_id, process_instance_key, element_instance_key, verb, tenant_id,
  instance_uid, entry_id, mode, on_unknown, max_runs, idempotency_key, generation, state, epoch, owner, lease_until,
  deliveries, runs, infra_runs, retries_left, next_retry_at, outcome, octet_length(output) AS output_bytes,
  output_seal, flags, error_code, fail_class, fail_code, fail_text, reported_at, acked_at, ack_result, pushed_at,
  popped_at, clock_timestamp() AS now, true AS archived
FROM verbworker.job_frame_archive
WHERE engine_id = $1 AND job_key = $2
ORDER BY archived, acked_at DESC
LIMIT 1;

-- name: events
-- What happened to a frame beyond one delivery, one run and one answer, oldest first.
SELECT at, kind, epoch, owner, detail
FROM verbworker.frame_event
WHERE engine_id = $1 AND job_key = $2
ORDER BY at;

-- name: conflicts
-- Deliveries that carried this key and were another job.
SELECT at, frame, delivery
FROM verbworker.frame_conflict
WHERE engine_id = $1 AND job_key = $2
ORDER BY at;

-- name: boots
-- The names of the processes that owned a frame.
SELECT owner, name, host, pid
FROM verbworker.worker_boot
WHERE owner = ANY ($1::uuid[]);

-- name: list
-- The frames in one state, those of undos too, those that wait longest first.
SELECT
  engine_id, job_key, verb, tenant_id, entry_id, process_id, element_id, state, runs, retries_left, fail_class, fail_code,
  fail_text, coalesce(popped_at, pushed_at) AS since
FROM verbworker.job_frame
WHERE engine_id IN ($1, $1 || '/undo') AND state = $2::text::verbworker.frame_state
ORDER BY coalesce(popped_at, pushed_at)
LIMIT $3;
