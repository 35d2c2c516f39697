-- name: open
-- An instance exists here before the engine is asked to start it.
INSERT INTO verbworker.workflow_instance (
  instance_uid, tenant_id, entry_id, verb, verb_version, payload_schema, engine_id, process_id, business_key, correlation
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb);

-- name: pin
-- What the engine made of it. The first to know wins: the starter, or the first job when the starter died.
UPDATE verbworker.workflow_instance
SET instance_key = $2, definition_key = $3, process_version = $4, status = 'active', started_at = clock_timestamp()
WHERE instance_uid = $1 AND instance_key IS NULL
RETURNING instance_uid;

-- name: known
-- What a job's instance is, to hold the job to it.
SELECT tenant_id, entry_id, verb, verb_version, engine_id, instance_key, correlation
FROM verbworker.workflow_instance
WHERE instance_uid = $1;

-- name: key_of
-- The engine's key of an instance, when it has one.
SELECT instance_key
FROM verbworker.workflow_instance
WHERE instance_uid = $1;

-- name: of_entry
-- The instance that carries an entry out.
SELECT instance_uid, engine_id, instance_key, status
FROM verbworker.workflow_instance
WHERE entry_id = $1;
