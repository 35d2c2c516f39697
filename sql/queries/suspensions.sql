-- name: instance_of
-- The instance of a job, by the engine's key of it or by the job's frame, locked: an entry that ends meanwhile, or has
-- ended, waits for nothing.
SELECT instance.tenant_id, instance.entry_id, instance.instance_uid, instance.engine_id, instance.instance_key,
  instance.process_id
FROM verbworker.workflow_instance AS instance
WHERE instance.engine_id = $1 AND instance.ended_at IS NULL AND instance.instance_key = coalesce($3::bigint, (
  SELECT frame.process_instance_key
  FROM verbworker.job_frame AS frame
  WHERE frame.engine_id = $1 AND frame.job_key = $2
))
FOR UPDATE OF instance;

-- name: instance_of_gate
-- The instance of a gate, locked likewise, and the job of its task; a native task has none.
SELECT instance.tenant_id, instance.entry_id, instance.instance_uid, instance.engine_id, instance.instance_key,
  instance.process_id, gate.job_key
FROM verbworker.parked_token AS gate
JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = gate.instance_uid
WHERE gate.token_id = $1 AND instance.ended_at IS NULL AND instance.instance_key IS NOT NULL
FOR UPDATE OF instance;

-- name: park
-- An instance is suspended. The token is the instance's own, whichever of its jobs found it; no row if
-- that is known. The first job that is known of is asked about.
INSERT INTO verbworker.parked_token AS token (
  tenant_id, entry_id, instance_uid, engine_id, instance_key, element_instance_key, element_id, kind, reason, job_key
)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'suspended', $8, $9)
ON CONFLICT (engine_id, element_instance_key, kind) DO UPDATE SET
  closed_at = NULL, closed_as = NULL,
  opened_at = CASE WHEN token.closed_at IS NULL THEN token.opened_at ELSE clock_timestamp() END,
  seen_at = clock_timestamp(), job_key = excluded.job_key
WHERE token.closed_at IS NOT NULL OR (token.job_key IS NULL AND excluded.job_key IS NOT NULL)
RETURNING token_id, opened_at;

-- name: ask
-- What is suspended in an engine, has a job to ask about, and was not asked about lately: the longest ago first. Each is
-- given to one worker.
UPDATE verbworker.parked_token AS token
SET seen_at = clock_timestamp()
FROM (
  SELECT waiting.token_id
  FROM verbworker.parked_token AS waiting
  WHERE waiting.engine_id = $1 AND waiting.kind = 'suspended' AND waiting.closed_at IS NULL
    AND waiting.job_key IS NOT NULL AND waiting.seen_at <= clock_timestamp() - $3::interval
  ORDER BY waiting.seen_at
  LIMIT $2
  FOR UPDATE SKIP LOCKED
) AS asked
WHERE token.token_id = asked.token_id
RETURNING token.token_id, token.entry_id, token.job_key, token.opened_at;

-- name: of_gate
-- The suspension of the instance of a gate.
SELECT token.token_id, token.entry_id, token.job_key, token.opened_at
FROM verbworker.parked_token AS gate
JOIN verbworker.parked_token AS token
  ON token.entry_id = gate.entry_id AND token.kind = 'suspended' AND token.closed_at IS NULL
WHERE gate.token_id = $1;

-- name: resume
-- It is not suspended any more. No row if that is known.
UPDATE verbworker.parked_token
SET closed_at = clock_timestamp(), closed_as = 'resumed'
WHERE token_id = $1 AND closed_at IS NULL
RETURNING token_id;
