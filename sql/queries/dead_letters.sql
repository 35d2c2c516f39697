-- name: write
-- What could not be delivered, in the same commit as the message's own end.
INSERT INTO verbworker.dead_letter (
  tenant_id, message_id, message_name, correlation_key, entry_id, code, reason, sent_by, generation
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
RETURNING letter_id;

-- name: write_unreadable
-- An envelope that could not be read. The same bytes leave one letter until a person decides about it.
INSERT INTO verbworker.dead_letter (tenant_id, code, reason, body, sent_by)
VALUES ($1, 'invalid', $2, $3, $4)
ON CONFLICT (tenant_id, sha256(body)) WHERE message_id IS NULL AND state = 'open' DO NOTHING
RETURNING letter_id;

-- name: entry_of
-- The entry people will look at, when it is this tenant's: the one the sender named, the one its key means, the one
-- that it was sent to.
SELECT entry.entry_id
FROM unnest(ARRAY[$1::uuid, $2::uuid, (
  SELECT instance.entry_id
  FROM verbworker.workflow_instance AS instance
  WHERE instance.instance_uid = $3
)]) WITH ORDINALITY AS wanted (entry_id, rank)
JOIN verbworker.runbook_entry AS entry ON entry.entry_id = wanted.entry_id
WHERE entry.tenant_id = $4
ORDER BY wanted.rank
LIMIT 1;

-- name: read
-- One letter, when it is this tenant's.
SELECT letter_id, tenant_id, message_id, message_name, correlation_key, entry_id, code, reason, sent_by, generation,
  state, created_at, resolved_at, resolved_by, resolved_reason
FROM verbworker.dead_letter
WHERE letter_id = $1 AND tenant_id = $2;

-- name: list
-- A tenant's letters, the oldest first; those that wait for a person, or all.
SELECT letter_id, tenant_id, message_id, message_name, correlation_key, entry_id, code, reason, sent_by, generation,
  state, created_at, resolved_at, resolved_by, resolved_reason
FROM verbworker.dead_letter
WHERE tenant_id = $1 AND ($2::boolean OR state = 'open')
ORDER BY created_at, letter_id
LIMIT $3;

-- name: open_of
-- The undecided letter of a message.
SELECT letter_id
FROM verbworker.dead_letter
WHERE tenant_id = $1 AND message_id = $2 AND state = 'open';

-- name: requeue
-- The message is to be delivered again, to the engine as another one; under another key when a person knows better.
UPDATE verbworker.inbox_message
SET state = 'received', generation = generation + 1, attempts = 0, owner = NULL, instance_uid = NULL, published_at = NULL,
  correlation_key = coalesce($4, correlation_key), last_error = NULL, next_at = clock_timestamp(),
  queued_at = clock_timestamp(), expires_at = clock_timestamp() + ttl
WHERE tenant_id = $1 AND message_id = $2 AND generation = $3 AND state = 'dead'
RETURNING message_id;

-- name: discard
-- The message will not be delivered. Its id stays used.
UPDATE verbworker.inbox_message
SET state = 'discarded', owner = NULL, discarded_at = clock_timestamp()
WHERE tenant_id = $1 AND message_id = $2 AND generation = $3 AND state = 'dead'
RETURNING message_id;

-- name: resolve
-- Record a person's decision. Only the first counts: the second gets its author and time.
UPDATE verbworker.dead_letter
SET state = $2, resolved_at = clock_timestamp(), resolved_by = $3, resolved_reason = $4
WHERE letter_id = $1 AND state = 'open'
RETURNING letter_id;
