-- Of one name and key at most one message may be with the engine while nobody knows whether it is: `aim` stores its
-- recipient first. Of those that an older version sent at the same time the oldest stays the first.
UPDATE verbworker.inbox_message AS message
SET instance_uid = NULL
WHERE message.state = 'received' AND message.instance_uid IS NOT NULL AND EXISTS (
  SELECT 1
  FROM verbworker.inbox_message AS earlier
  WHERE earlier.tenant_id = message.tenant_id AND earlier.message_name = message.message_name
    AND earlier.correlation_key = message.correlation_key AND earlier.state = 'received'
    AND earlier.instance_uid IS NOT NULL
    AND (earlier.queued_at, earlier.message_id) < (message.queued_at, message.message_id)
);

CREATE UNIQUE INDEX inbox_message_aimed ON verbworker.inbox_message (tenant_id, message_name, correlation_key)
WHERE state = 'received' AND instance_uid IS NOT NULL;
