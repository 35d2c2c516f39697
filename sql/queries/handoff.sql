-- name: send
-- A message of one case to another, in the transaction of the step that sends it; for the engine that runs the step.
INSERT INTO verbworker.inbox_message (
  tenant_id, message_id, message_name, correlation_key, body_hash, payload, correlation_id, causation_id, sent_by,
  engine_id, ttl, expires_at, traceparent
)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, instance.engine_id, $10::interval, clock_timestamp() + $10::interval, $12
FROM verbworker.workflow_instance AS instance
WHERE instance.entry_id = $11 AND instance.tenant_id = $1
ON CONFLICT (tenant_id, message_id) DO NOTHING
RETURNING message_id;

-- name: sent
-- What was sent under this id before.
SELECT body_hash
FROM verbworker.inbox_message
WHERE tenant_id = $1 AND message_id = $2;
