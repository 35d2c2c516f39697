-- name: lock
-- Publishing under a key and starting to wait under it take turns: neither may miss the other.
SELECT pg_advisory_xact_lock(wanted.number)
FROM (
  SELECT DISTINCT hashtextextended(key, 20) AS number
  FROM unnest($1::text[]) AS wanted (key)
  ORDER BY number
) AS wanted;

-- name: is_buffered
-- Whether a message of this id is kept still.
SELECT EXISTS (
  SELECT 1
  FROM verbworker_engine.message
  WHERE tenant_id = $1 AND message_name = $2 AND correlation_key = $3 AND message_id = $4 AND message_id <> ''
    AND expires_at > (SELECT verbworker_engine.now())
) AS is_buffered;

-- name: buffer
-- Keep a message until it expires. One that has expired under the same id, and was not swept yet, gives way.
INSERT INTO verbworker_engine.message (
  tenant_id, message_name, correlation_key, message_id, variables, expires_at
)
VALUES ($1, $2, $3, $4, $5, (SELECT verbworker_engine.now()) + $6::bigint * interval '1 millisecond')
ON CONFLICT (tenant_id, message_name, correlation_key, message_id) WHERE message_id <> '' DO UPDATE SET
  message_key = DEFAULT,
  variables = excluded.variables,
  expires_at = excluded.expires_at,
  taken_by = '{}'
RETURNING message_key;

-- name: waiting
-- Who waits for a message, process by process, the longest waiting first.
SELECT wait_key, instance_key, process_id
FROM verbworker_engine.subscription
WHERE tenant_id = $1 AND message_name = $2 AND correlation_key = $3
ORDER BY process_id, wait_key;

-- name: starting
-- What a message starts, unless an instance that its key started is still there.
SELECT start.process_id, start.element_id, start.definition_key
FROM verbworker_engine.message_start AS start
WHERE start.message_name = $2
  AND (
    $3 = ''
    OR NOT EXISTS (
      SELECT 1
      FROM verbworker_engine.instance
      WHERE instance.tenant_id = $1 AND instance.process_id = start.process_id AND instance.start_key = $3
    )
  )
ORDER BY start.process_id, start.element_id;

-- name: buffered
-- The oldest message for the first of these waits that has one, of those that this process did not have yet.
SELECT wanted.wait_key, message.message_key, message.variables
FROM unnest($3::bigint[], $4::text[], $5::text[]) WITH ORDINALITY
  AS wanted (wait_key, message_name, correlation_key, place)
CROSS JOIN LATERAL (
  SELECT message.message_key, message.variables
  FROM verbworker_engine.message
  WHERE message.tenant_id = $1 AND message.message_name = wanted.message_name
    AND message.correlation_key = wanted.correlation_key
    AND message.expires_at > (SELECT verbworker_engine.now())
    AND $2 <> ALL (message.taken_by)
    AND message.message_key <> ALL ($6::bigint[])
  ORDER BY message.message_key
  LIMIT 1
) AS message
ORDER BY wanted.place
LIMIT 1;

-- name: next_start
-- The oldest message that may start a process once the instance its key started before has ended.
SELECT message.message_key, message.variables, start.element_id, start.definition_key
FROM verbworker_engine.message_start AS start
JOIN verbworker_engine.message ON message.message_name = start.message_name
WHERE start.process_id = $2
  AND message.tenant_id = $1
  AND message.correlation_key = $3
  AND message.expires_at > (SELECT verbworker_engine.now())
  AND $2 <> ALL (message.taken_by)
ORDER BY message.message_key
LIMIT 1;

-- name: expire
-- Forget messages whose time is over.
WITH old AS (
  SELECT message_key
  FROM verbworker_engine.message
  WHERE expires_at <= (SELECT verbworker_engine.now())
  ORDER BY expires_at
  LIMIT $1
  FOR UPDATE SKIP LOCKED
)
DELETE FROM verbworker_engine.message
USING old
WHERE message.message_key = old.message_key
RETURNING message.message_key;
