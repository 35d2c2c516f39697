-- name: write
-- Rows of jobs without a frame, of one process, in one statement: jobs whose handling is over lose theirs, the others
-- get one or keep it alive. A new delivery ($9) takes the row over from its owner; a heartbeat takes only one that
-- is its own, that is missing, or whose lease is over. A batch never holds a key twice.
-- Losing the last rows in a crash of the server costs nothing, because the workers live on: so no commit waits for the
-- disk.
WITH quick AS (
  SELECT set_config('synchronous_commit', 'off', true)
),
gone AS (
  DELETE FROM verbworker.job_delivery
  USING quick
  WHERE engine_id = $1 AND job_key = ANY ($4::bigint[]) AND owner = $2
)
INSERT INTO verbworker.job_delivery AS standing (
  engine_id, job_key, type, instance_uid, retries, owner, lease_until
)
SELECT $1, item.job_key, item.type, item.instance_uid, item.retries, $2, clock_timestamp() + $3
FROM quick
CROSS JOIN unnest($5::bigint[], $6::text[], $7::uuid[], $8::integer[]) AS item (job_key, type, instance_uid, retries)
ORDER BY item.job_key
ON CONFLICT (engine_id, job_key) DO UPDATE SET
  retries = excluded.retries,
  owner = excluded.owner,
  lease_until = excluded.lease_until,
  delivered_at = CASE WHEN standing.owner = excluded.owner THEN standing.delivered_at ELSE excluded.delivered_at END
WHERE standing.owner = excluded.owner OR standing.lease_until < clock_timestamp()
  OR excluded.job_key = ANY ($9::bigint[]);

-- name: take
-- Take the rows whose owner has been silent for longer than its lease and the grace, for the length of a lease.
WITH due AS (
  SELECT job_key
  FROM verbworker.job_delivery
  WHERE engine_id = $1 AND lease_until < clock_timestamp() - $4::interval
  ORDER BY lease_until
  LIMIT $5
  FOR UPDATE SKIP LOCKED
)
UPDATE verbworker.job_delivery AS delivery
SET owner = $2, lease_until = clock_timestamp() + $3
FROM due
WHERE delivery.engine_id = $1 AND delivery.job_key = due.job_key
RETURNING delivery.job_key, delivery.type, delivery.instance_uid, delivery.retries, delivery.lease_until;

-- name: remove
-- The job is the engine's again. A worker that got it meanwhile has the row by now, with another lease: that one stays.
DELETE FROM verbworker.job_delivery
WHERE engine_id = $1 AND job_key = $2 AND owner = $3 AND lease_until = $4;

-- name: postpone
-- The engine could not be reached; after the pause the next sweep takes the row.
UPDATE verbworker.job_delivery
SET lease_until = clock_timestamp() - $5::interval + $6::interval
WHERE engine_id = $1 AND job_key = $2 AND owner = $3 AND lease_until = $4;
