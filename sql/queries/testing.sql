-- name: expire_leases
-- The testing kit killed a worker: its leases are no longer extended, and the test does not wait for them to end.
UPDATE verbworker.job_frame
SET lease_until = clock_timestamp() - interval '1 second'
WHERE engine_id = $1 AND state = 'started';

-- name: end_backoffs
-- The testing kit let time pass.
UPDATE verbworker.job_frame
SET next_retry_at = clock_timestamp()
WHERE engine_id = $1 AND state = 'failed';
