-- name: record_task_profiles
-- The task profiles of a compiled process, stored before its model goes to the engine. The same ones are stored once.
INSERT INTO verbworker.process_terms (digest, process_id, definition_id, ir, policies)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (digest) DO NOTHING;

-- name: request
-- What is about to be deployed, and when it was last asked for.
INSERT INTO verbworker.deployment_request (
  engine_id, process_id, woven_sha256, verb, resource, authored_sha256, woven, shape_sha256, waits, steps, requested_by,
  terms_digest, catches, flags
)
VALUES ($1, $2, sha256($6), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (engine_id, process_id, woven_sha256) DO UPDATE SET
  requested_at = clock_timestamp(),
  verb = excluded.verb,
  resource = excluded.resource,
  authored_sha256 = excluded.authored_sha256,
  woven = excluded.woven,
  shape_sha256 = excluded.shape_sha256,
  waits = excluded.waits,
  steps = excluded.steps,
  requested_by = excluded.requested_by,
  terms_digest = excluded.terms_digest,
  catches = excluded.catches,
  flags = excluded.flags;

-- name: assume
-- Record a definition that nobody recorded, as the model it must be: one that was asked for lately. Engines make no new
-- version of the bytes that the last version has, so it is not those. Nothing is recorded where the models that are left
-- differ in more than what people read.
WITH candidate AS (
  SELECT request.verb, request.resource, request.authored_sha256, request.woven_sha256, request.woven,
    request.shape_sha256, request.waits, request.steps, request.requested_by, request.terms_digest, request.catches,
    request.requested_at
  FROM verbworker.deployment_request AS request
  WHERE request.engine_id = $1 AND request.process_id = $3 AND request.woven IS NOT NULL
    AND request.requested_at > clock_timestamp() - $5::interval
    AND NOT EXISTS (
      SELECT 1
      FROM verbworker.process_deployment AS last
      WHERE last.engine_id = $1 AND last.process_id = $3 AND last.version = $4 - 1 AND NOT last.is_assumed
        AND last.woven_sha256 = request.woven_sha256
    )
)
INSERT INTO verbworker.process_deployment (
  engine_id, definition_key, process_id, version, verb, resource, authored_sha256, woven_sha256, woven, waits, steps,
  deployed_by, terms_digest, catches, is_assumed
)
SELECT $1, $2, $3, $4, candidate.verb, candidate.resource, candidate.authored_sha256, candidate.woven_sha256,
  candidate.woven, candidate.waits, candidate.steps, candidate.requested_by, candidate.terms_digest, candidate.catches,
  true
FROM candidate
WHERE (
  SELECT count(DISTINCT (one.verb, one.shape_sha256))
  FROM candidate AS one
) = 1
ORDER BY candidate.requested_at DESC
LIMIT 1
ON CONFLICT (engine_id, definition_key) DO NOTHING
RETURNING definition_key;

-- name: record
-- What the engine made of some bytes. Nothing is returned when this definition is known already; what was assumed of it
-- is replaced.
INSERT INTO verbworker.process_deployment (
  engine_id, definition_key, process_id, version, verb, resource, authored_sha256, woven_sha256, woven, waits, steps,
  deployed_by, terms_digest, catches
)
VALUES ($1, $2, $3, $4, $5, $6, $7, sha256($8), $8, $9, $10, $11, $12, $13)
ON CONFLICT (engine_id, definition_key) DO UPDATE SET
  process_id = excluded.process_id,
  version = excluded.version,
  verb = excluded.verb,
  resource = excluded.resource,
  authored_sha256 = excluded.authored_sha256,
  woven_sha256 = excluded.woven_sha256,
  woven = excluded.woven,
  waits = excluded.waits,
  steps = excluded.steps,
  deployed_by = excluded.deployed_by,
  terms_digest = excluded.terms_digest,
  catches = excluded.catches,
  is_assumed = false
WHERE process_deployment.is_assumed
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
