-- name: open
-- An instance exists here before the engine is asked to start it.
INSERT INTO verbworker.workflow_instance (
  instance_uid, tenant_id, entry_id, verb, verb_version, payload_schema, engine_id, process_id, business_key, correlation
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb);

-- name: pin
-- What the engine made of it. The first to know wins: the starter, or the first job when the starter died.
-- One that was cancelled before it began stays so.
UPDATE verbworker.workflow_instance
SET instance_key = $2, definition_key = $3, process_version = $4, status = 'active', started_at = clock_timestamp()
WHERE instance_uid = $1 AND instance_key IS NULL AND ended_at IS NULL
RETURNING instance_uid;

-- name: known
-- What a job's instance is, to hold the job to it.
SELECT tenant_id, entry_id, verb, verb_version, engine_id, instance_key, definition_key, correlation, status
FROM verbworker.workflow_instance
WHERE instance_uid = $1;

-- name: hold
-- The same, held while something is told of it: of two deliveries the second sees what the first did.
SELECT tenant_id, entry_id, verb, verb_version, engine_id, instance_key, definition_key, correlation, status
FROM verbworker.workflow_instance
WHERE instance_uid = $1
FOR UPDATE;

-- name: hold_carrier
-- The instance that carries an entry out, held while the entry is cancelled.
SELECT instance_uid, engine_id, instance_key
FROM verbworker.workflow_instance
WHERE entry_id = $1
FOR UPDATE;

-- name: quiet
-- Instances of which nothing was heard for long, each looked at by one reconciler at a time.
WITH silent AS (
  SELECT instance.instance_uid
  FROM verbworker.workflow_instance AS instance
  JOIN verbworker.runbook_entry AS entry ON entry.entry_id = instance.entry_id
  WHERE instance.engine_id = $1 AND instance.ended_at IS NULL AND instance.instance_key IS NOT NULL
    AND entry.updated_at < clock_timestamp() - $2::interval
    AND (instance.probed_at IS NULL OR instance.probed_at < clock_timestamp() - $2::interval)
  ORDER BY instance.probed_at NULLS FIRST, instance.created_at
  LIMIT $3
  FOR UPDATE OF instance SKIP LOCKED
)
UPDATE verbworker.workflow_instance AS instance
SET probed_at = clock_timestamp()
FROM silent
WHERE instance.instance_uid = silent.instance_uid
RETURNING instance.instance_uid, instance.entry_id, instance.instance_key;

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
