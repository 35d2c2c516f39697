-- name: unknown
-- Those of the engine's incidents that belong to an open entry, or to a plain process, and are not recorded, or were
-- missed at an earlier look.
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
UNION ALL
SELECT found.incident_key
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
  AS found (incident_key, instance_key, definition_key, job_key)
WHERE NOT EXISTS (
  SELECT 1
  FROM verbworker.plain_incident AS known
  WHERE known.engine_id = $1 AND known.incident_key = found.incident_key
    AND (known.closed_at IS NOT NULL OR known.missed_at IS NULL)
) AND verbworker.is_plain($1, found.definition_key, found.instance_key, found.job_key)
ORDER BY incident_key;

-- name: raise
-- Record an incident of the engine in the entry of its instance, or as one of a plain process.
SELECT verbworker.raise_incident($1, $2, $3, $4, $5, $6, $7, $8)
  OR verbworker.raise_plain_incident($1, $9, $10, $2, $3, $4, $5, $6, $7, $8, $11) AS is_new;

-- name: settle
-- The engine has an incident no more.
SELECT verbworker.settle_incident($1, $2) OR verbworker.settle_plain_incident($1, $2) AS is_settled;

-- name: model_of
-- The model that an entry runs, for the flags it reads, the flags of its contract, and the flags it has. A model that was
-- deployed before the contract was recorded has none of it.
SELECT deployment.verb, deployment.woven, request.flags::text AS flags, ARRAY(
  SELECT jsonb_object_keys(head.flags)
  FROM verbworker.payload_head AS head
  WHERE head.instance_uid = instance.instance_uid
) AS recorded
FROM verbworker.workflow_instance AS instance
JOIN verbworker.process_deployment AS deployment
  ON deployment.engine_id = instance.engine_id AND deployment.definition_key = instance.definition_key
LEFT JOIN verbworker.deployment_request AS request
  ON request.engine_id = deployment.engine_id AND request.process_id = deployment.process_id
  AND request.woven_sha256 = deployment.woven_sha256
WHERE instance.entry_id = $1;

-- name: resolve_plain
-- Who wants an incident of a plain process to be resolved, and why; there is no entry to record it in.
UPDATE verbworker.plain_incident
SET resolved_by = $2, resolved_because = $3
WHERE incident_id = $1;

-- name: forget
-- A person resolved it, and the engine did not get that.
UPDATE verbworker.parked_token
SET incident_key = NULL, incident_type = NULL, incident_text = NULL
WHERE engine_id IN ($1, $1 || '/undo') AND incident_key = $2 AND closed_at IS NOT NULL;

-- name: absent
-- The incidents of an engine that are recorded and not settled, without those that a search has just found, and whether
-- they were missed that long ago.
SELECT noted.incident_key, noted.instance_key, noted.missed_at < clock_timestamp() - $2::interval AS is_missed
FROM (
  SELECT token.incident_key, token.instance_key, token.missed_at, token.opened_at AS since
  FROM verbworker.parked_token AS token
  WHERE token.engine_id IN ($1, $1 || '/undo') AND token.kind = 'incident' AND token.closed_at IS NULL
    AND token.incident_key IS NOT NULL
  UNION ALL
  SELECT incident.incident_key, incident.instance_key, incident.missed_at, incident.raised_at
  FROM verbworker.plain_incident AS incident
  WHERE incident.engine_id = $1 AND incident.closed_at IS NULL
) AS noted
WHERE NOT EXISTS (
  SELECT 1
  FROM unnest($4::bigint[]) AS found (incident_key)
  WHERE found.incident_key = noted.incident_key
)
ORDER BY noted.since
LIMIT $3;

-- name: miss
-- A search does not contain these incidents any more. The first look counts.
WITH plain AS (
  UPDATE verbworker.plain_incident
  SET missed_at = clock_timestamp()
  WHERE engine_id = $1 AND incident_key = ANY ($2::bigint[]) AND closed_at IS NULL AND missed_at IS NULL
)
UPDATE verbworker.parked_token
SET missed_at = clock_timestamp()
WHERE engine_id IN ($1, $1 || '/undo') AND incident_key = ANY ($2::bigint[]) AND closed_at IS NULL AND missed_at IS NULL;

-- name: key_of
-- The incident of a held job, if it is known.
SELECT incident_key, opened_at AS since
FROM verbworker.parked_token
WHERE engine_id = $1 AND job_key = $2 AND kind = 'incident' AND incident_key IS NOT NULL
UNION ALL
SELECT incident_key, raised_at
FROM verbworker.plain_incident
WHERE engine_id = $1 AND job_key = $2 AND closed_at IS NULL
ORDER BY since DESC
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

-- name: claim_stalls
-- Instances whose entries make no progress although nothing of ours is missing: their jobs may be locked in the engine. Each
-- is given to one worker, once in a while.
UPDATE verbworker.stall AS noted
SET nudged_at = clock_timestamp()
FROM (
  SELECT due.entry_id, due.place, instance.instance_key
  FROM verbworker.stall AS due
  JOIN verbworker.workflow_instance AS instance ON instance.entry_id = due.entry_id
  WHERE due.engine_id = $1 AND due.kind = 'job' AND instance.ended_at IS NULL AND instance.instance_key IS NOT NULL
    AND (due.nudged_at IS NULL OR due.nudged_at < clock_timestamp() - $3::interval)
  ORDER BY due.since
  LIMIT $2
  FOR UPDATE OF due SKIP LOCKED
) AS longest
WHERE noted.entry_id = longest.entry_id AND noted.kind = 'job' AND noted.place = longest.place
RETURNING longest.instance_key;
