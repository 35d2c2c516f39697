-- name: unknown
-- Those of the engine's incidents that belong to an open entry and are not recorded, or were missed at an earlier look.
SELECT found.incident_key
FROM unnest($2::bigint[], $3::bigint[]) AS found (incident_key, instance_key)
JOIN verbworker.workflow_instance AS instance
  ON instance.engine_id = $1 AND instance.instance_key = found.instance_key
WHERE instance.instance_key = ANY ($3::bigint[]) AND instance.ended_at IS NULL AND NOT EXISTS (
  SELECT 1
  FROM verbworker.parked_token AS token
  WHERE token.engine_id IN ($1, $1 || '/undo') AND token.incident_key = found.incident_key
    AND (token.closed_at IS NOT NULL OR token.missed_at IS NULL)
)
ORDER BY found.incident_key;

-- name: raise
-- Record an incident of the engine in the entry of its instance.
SELECT verbworker.raise_incident($1, $2, $3, $4, $5, $6, $7, $8) AS is_new;

-- name: settle
-- The engine has an incident no more.
SELECT verbworker.settle_incident($1, $2) AS is_settled;

-- name: forget
-- A person resolved it, and the engine did not get that.
UPDATE verbworker.parked_token
SET incident_key = NULL, incident_type = NULL, incident_text = NULL
WHERE engine_id IN ($1, $1 || '/undo') AND incident_key = $2 AND closed_at IS NOT NULL;

-- name: open
-- The incidents of an engine that are recorded and not settled, and whether they were missed that long ago.
SELECT token.incident_key, token.instance_key, token.missed_at < clock_timestamp() - $2::interval AS is_missed
FROM verbworker.parked_token AS token
WHERE token.engine_id IN ($1, $1 || '/undo') AND token.kind = 'incident' AND token.closed_at IS NULL
  AND token.incident_key IS NOT NULL
ORDER BY token.opened_at
LIMIT $3;

-- name: miss
-- A search does not contain these incidents any more. The first look counts.
UPDATE verbworker.parked_token
SET missed_at = clock_timestamp()
WHERE engine_id IN ($1, $1 || '/undo') AND incident_key = ANY ($2::bigint[]) AND closed_at IS NULL AND missed_at IS NULL;

-- name: key_of
-- The incident of a held job, if it is known.
SELECT incident_key
FROM verbworker.parked_token
WHERE engine_id = $1 AND job_key = $2 AND kind = 'incident' AND incident_key IS NOT NULL
ORDER BY opened_at DESC
LIMIT 1;

-- name: running
-- Those of some instances of the engine whose entries have not ended.
SELECT instance_uid, instance_key
FROM verbworker.workflow_instance
WHERE engine_id = $1 AND instance_key = ANY ($2::bigint[]) AND ended_at IS NULL;

-- name: without_gate
-- Those of some user tasks that belong to an open entry and have no gate.
SELECT task.element_instance_key
FROM unnest($2::bigint[], $3::bigint[]) AS task (element_instance_key, instance_key)
JOIN verbworker.workflow_instance AS instance
  ON instance.engine_id = $1 AND instance.instance_key = task.instance_key
WHERE instance.instance_key = ANY ($3::bigint[]) AND instance.ended_at IS NULL AND NOT EXISTS (
  SELECT 1
  FROM verbworker.parked_token AS token
  WHERE token.engine_id = $1 AND token.element_instance_key = task.element_instance_key AND token.kind = 'human_gate'
);

-- name: stalled
-- Instances whose entries make no progress although nothing of ours is missing: their jobs may be locked in the engine.
SELECT instance.instance_key
FROM verbworker.stall AS noted
JOIN verbworker.workflow_instance AS instance ON instance.entry_id = noted.entry_id
WHERE noted.engine_id = $1 AND noted.kind = 'job' AND instance.ended_at IS NULL AND instance.instance_key IS NOT NULL
ORDER BY noted.since
LIMIT $2;
