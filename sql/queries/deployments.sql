-- name: record_terms
-- The terms of a compiled process, before the engine is told of its model. The same terms are kept once.
INSERT INTO verbworker.process_terms (digest, process_id, definition_id, ir, policies)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (digest) DO NOTHING;

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
-- The deployment behind a definition key, for whoever holds a job of it.
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
-- The codes that a definition catches, for a verb that ended with one. Bytes come only where nobody read them before.
SELECT process_id, catches, CASE WHEN catches IS NULL THEN woven END AS woven
FROM verbworker.process_deployment
WHERE engine_id = $1 AND definition_key = $2;
