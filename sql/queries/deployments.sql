-- name: record_task_profiles
-- The task profiles of a compiled process, stored before its model goes to the engine. The same ones are stored once.
INSERT INTO verbworker.process_terms (digest, process_id, definition_id, ir, policies)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (digest) DO NOTHING;

-- name: request
-- What is about to be deployed, and when it was last asked for.
INSERT INTO verbworker.deployment_request (engine_id, process_id, woven_sha256, catches)
VALUES ($1, $2, sha256($3), $4)
ON CONFLICT (engine_id, process_id, woven_sha256) DO UPDATE SET requested_at = clock_timestamp();

-- name: requested
-- What models of a process catch that the engine was asked to take lately and whose answer is not on record.
SELECT request.catches
FROM verbworker.deployment_request AS request
WHERE request.engine_id = $1 AND request.process_id = $2 AND request.requested_at > clock_timestamp() - $3::interval
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.process_deployment AS deployment
    WHERE deployment.engine_id = $1 AND deployment.process_id = $2 AND deployment.woven_sha256 = request.woven_sha256
  )
ORDER BY request.requested_at DESC;

-- name: record
-- What the engine made of some bytes. Nothing is returned when this definition is known already.
INSERT INTO verbworker.process_deployment (
  engine_id, definition_key, process_id, version, verb, resource, authored_sha256, woven_sha256, woven, waits, steps,
  deployed_by, terms_digest, catches
)
VALUES ($1, $2, $3, $4, $5, $6, $7, sha256($8), $8, $9, $10, $11, $12, $13)
ON CONFLICT (engine_id, definition_key) DO NOTHING
RETURNING definition_key;

-- name: find
-- The deployment behind a definition key, for a worker that has a job of it.
SELECT definition_key, process_id, version, verb, resource, authored_sha256, woven_sha256, waits, steps, deployed_by,
  deployed_at
FROM verbworker.process_deployment
WHERE engine_id = $1 AND definition_key = $2;

-- name: latest
-- The newest version of a process, which a start without a version gets.
SELECT definition_key, process_id, version, verb, resource, authored_sha256, woven_sha256, waits, steps, deployed_by,
  deployed_at
FROM verbworker.process_deployment
WHERE engine_id = $1 AND process_id = $2
ORDER BY version DESC
LIMIT 1;

-- name: list
-- Every version of every process, the newest first, for people.
SELECT definition_key, process_id, version, verb, resource, authored_sha256, woven_sha256, waits, steps, deployed_by,
  deployed_at
FROM verbworker.process_deployment
WHERE engine_id = $1
ORDER BY process_id, version DESC
LIMIT $2;

-- name: content
-- The very bytes that were deployed.
SELECT woven
FROM verbworker.process_deployment
WHERE engine_id = $1 AND definition_key = $2;

-- name: catches
-- The codes that a definition catches, for a verb that ended with one. Bytes come only if they are not yet parsed.
SELECT process_id, catches, CASE WHEN catches IS NULL THEN woven END AS woven
FROM verbworker.process_deployment
WHERE engine_id = $1 AND definition_key = $2;
