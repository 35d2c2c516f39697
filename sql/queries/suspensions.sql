-- name: instance_of
-- The instance of a job, by the engine's key of it or by the job's frame. An entry that has ended waits for nothing.
SELECT instance.tenant_id, instance.entry_id, instance.instance_uid, instance.engine_id, instance.instance_key,
  instance.process_id
FROM verbworker.workflow_instance AS instance
WHERE instance.engine_id = $1 AND instance.ended_at IS NULL AND instance.instance_key = coalesce($3::bigint, (
  SELECT frame.process_instance_key
  FROM verbworker.job_frame AS frame
  WHERE frame.engine_id = $1 AND frame.job_key = $2
));

-- name: park
-- An instance is suspended. No row if that is known. The token is the instance's own, whichever of its jobs found it.
INSERT INTO verbworker.parked_token AS token (
  tenant_id, entry_id, instance_uid, engine_id, instance_key, element_instance_key, element_id, kind, reason, job_key
)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'suspended', $8, $9)
ON CONFLICT (engine_id, element_instance_key, kind) DO UPDATE SET
  closed_at = NULL, closed_as = NULL, opened_at = clock_timestamp(), job_key = excluded.job_key
WHERE token.closed_at IS NOT NULL
RETURNING token_id, opened_at;

-- name: open
-- What is suspended in an engine, the longest first.
SELECT token_id, entry_id, job_key, opened_at
FROM verbworker.parked_token
WHERE engine_id = $1 AND kind = 'suspended' AND closed_at IS NULL
ORDER BY opened_at
LIMIT $2;

-- name: resume
-- It is not suspended any more. No row if that is known.
UPDATE verbworker.parked_token
SET closed_at = clock_timestamp(), closed_as = 'resumed'
WHERE token_id = $1 AND closed_at IS NULL
RETURNING token_id;
