-- name: take
-- The oldest envelope that no other consumer has. It is gone when the transaction around commits, and back if that does not.
DELETE FROM verbworker.envelope_queue
WHERE queue_id = (
  SELECT queue_id
  FROM verbworker.envelope_queue
  ORDER BY queue_id
  LIMIT 1
  FOR UPDATE SKIP LOCKED
)
RETURNING tenant_id, envelope;
