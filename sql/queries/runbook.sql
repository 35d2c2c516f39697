-- name: open
-- A new entry, or nothing when the tenant used this request key before.
INSERT INTO verbworker.runbook_entry (
  entry_id, tenant_id, request_key, request_hash, verb, verb_version, mode, sentence, invocation, args, asked_by,
  provenance, traceparent, process_id
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (tenant_id, request_key) DO NOTHING
RETURNING entry_id;

-- name: by_request
-- The entry an earlier request with the same key made.
SELECT entry_id, request_hash
FROM verbworker.runbook_entry
WHERE tenant_id = $1 AND request_key = $2;

-- name: entry
-- One entry of one tenant.
SELECT
  entry_id, tenant_id, request_key, verb, verb_version, mode, sentence, invocation, args, asked_by, status, outcome,
  process_id, process_version, definition_key, provenance, cancel_requested_at, created_at, updated_at, ended_at
FROM verbworker.runbook_entry
WHERE entry_id = $1 AND ($2::text IS NULL OR tenant_id = $2);

-- name: list
-- The newest entries of a tenant first, perhaps only those of one status or one verb.
SELECT
  entry_id, tenant_id, request_key, verb, verb_version, mode, sentence, invocation, args, asked_by, status, outcome,
  process_id, process_version, definition_key, provenance, cancel_requested_at, created_at, updated_at, ended_at
FROM verbworker.runbook_entry
WHERE tenant_id = $1
  AND ($2::text IS NULL OR status = $2)
  AND ($3::text IS NULL OR verb = $3)
ORDER BY created_at DESC, entry_id
LIMIT $4;

-- name: events
-- What happened to an entry after one of its events, in order.
SELECT entry_id, seq, at, kind, detail, status, hash
FROM verbworker.runbook_event
WHERE entry_id = $1 AND seq > $2
ORDER BY seq
LIMIT $3;

-- name: append
-- Tell one thing once; null when it was told before or nobody knows the entry.
SELECT verbworker.append_event($1, $2, $3, $4) AS seq;

-- name: park
-- What an entry waits for. One that came before only says that it is still waiting.
INSERT INTO verbworker.parked_token AS token (
  tenant_id, entry_id, instance_uid, engine_id, instance_key, element_instance_key, element_id, kind, reason,
  gate, message_name, correlation_key, job_key, detail, due_at, due_beside, input_hash
)
VALUES (
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
  least(clock_timestamp() + $15::interval, $16::timestamptz), $17::text[], $18
)
ON CONFLICT (engine_id, element_instance_key, kind) DO UPDATE SET
  seen_at = clock_timestamp(), job_key = coalesce(excluded.job_key, token.job_key)
RETURNING token_id, closed_as, xmax = 0 AS is_new;

-- name: reopen
-- A wait that had ended is there again: the engine forgot its end. The same wait under another key is over.
WITH closed AS (
  UPDATE verbworker.parked_token
  SET closed_at = clock_timestamp(), closed_as = 'gone'
  WHERE entry_id = $2 AND closed_at IS NULL AND kind = $4 AND element_id = $5 AND input_hash = $6
    AND (engine_id, element_instance_key) <> ($1, $3)
)
UPDATE verbworker.parked_token
SET closed_at = NULL, closed_as = NULL
WHERE engine_id = $1 AND element_instance_key = $3 AND kind = $4 AND entry_id = $2 AND closed_at IS NOT NULL
RETURNING token_id;

-- name: unpark
-- The wait of one element instance is over.
UPDATE verbworker.parked_token
SET closed_at = clock_timestamp(), closed_as = $3
WHERE engine_id = $1 AND element_instance_key = $2 AND kind <> 'incident' AND closed_at IS NULL
RETURNING token_id, entry_id, kind, reason, gate, message_name, correlation_key, input_hash;

-- name: unpark_elements
-- Every wait at some places of an instance is over: a boundary event fired, or another branch of a choice was taken.
UPDATE verbworker.parked_token
SET closed_at = clock_timestamp(), closed_as = $4
WHERE engine_id = $1 AND instance_key = $2 AND element_id = ANY ($3::text[]) AND closed_at IS NULL
RETURNING token_id, entry_id, kind, reason, gate, message_name, correlation_key;

-- name: open_tokens
-- What an entry waits for now, the longest wait first.
SELECT token_id, kind, reason, opened_at, gate, message_name
FROM verbworker.parked_token
WHERE entry_id = $1 AND closed_at IS NULL
ORDER BY opened_at, token_id;

-- name: hold_instance
-- Instances are locked before their entries, everywhere.
SELECT instance_uid
FROM verbworker.workflow_instance
WHERE entry_id = $1
FOR UPDATE;

-- name: hold_tokens
-- And open waits before entries: whoever closes one holds it while it asks for the entry.
SELECT token_id
FROM verbworker.parked_token
WHERE entry_id = $1 AND closed_at IS NULL
ORDER BY token_id
FOR UPDATE;

-- name: end
-- What the caller gets; written together with the event that ends the entry.
UPDATE verbworker.runbook_entry
SET outcome = $2
WHERE entry_id = $1 AND ended_at IS NULL
RETURNING entry_id;

-- name: broken
-- The entries whose chain does not hold: an event was changed, dropped or slipped in. One entry, or all of a tenant.
WITH told AS (
  SELECT
    event.entry_id, event.seq, event.hash,
    row_number() OVER chain AS place,
    verbworker.event_hash(
      coalesce(lag(event.hash) OVER chain, '\x'), event.entry_id, event.seq, event.at, event.kind, event.once, event.detail,
      event.status
    ) AS due
  FROM verbworker.runbook_event AS event
  JOIN verbworker.runbook_entry AS entry USING (entry_id)
  WHERE entry.tenant_id = $1 AND ($2::uuid IS NULL OR entry.entry_id = $2)
  WINDOW chain AS (PARTITION BY event.entry_id ORDER BY event.seq)
),
wrong AS (
  SELECT entry_id, min(seq) AS seq FROM told WHERE hash <> due OR seq <> place GROUP BY entry_id
),
last AS (
  SELECT DISTINCT ON (entry_id) entry_id, seq, hash FROM told ORDER BY entry_id, seq DESC
)
SELECT entry.entry_id, coalesce(wrong.seq, last.seq + 1, 1) AS seq
FROM verbworker.runbook_entry AS entry
LEFT JOIN wrong USING (entry_id)
LEFT JOIN last USING (entry_id)
WHERE entry.tenant_id = $1 AND ($2::uuid IS NULL OR entry.entry_id = $2)
  AND (
    wrong.entry_id IS NOT NULL
    OR entry.last_seq <> coalesce(last.seq, 0)
    OR entry.last_hash <> coalesce(last.hash, '\x')
  )
ORDER BY entry.created_at, entry.entry_id;

-- name: count_events
-- How much a verification looked at.
SELECT count(DISTINCT entry.entry_id) AS entries, count(event.seq) AS events
FROM verbworker.runbook_entry AS entry
LEFT JOIN verbworker.runbook_event AS event USING (entry_id)
WHERE entry.tenant_id = $1 AND ($2::uuid IS NULL OR entry.entry_id = $2);

-- name: take
-- The right to perform a direct verb: for a new entry, or for one whose performer's lease ran out.
UPDATE verbworker.runbook_entry
SET owner = $2, epoch = epoch + 1, lease_until = clock_timestamp() + $3::interval
WHERE entry_id = $1 AND ended_at IS NULL AND mode = 'sync'
  AND (lease_until IS NULL OR lease_until < clock_timestamp())
RETURNING epoch, clock_timestamp() AS now;

-- name: hold_taken
-- Whether the right is still ours; it cannot be taken away until the caller's transaction ends.
SELECT entry_id
FROM verbworker.runbook_entry
WHERE entry_id = $1 AND owner = $2 AND epoch = $3 AND ended_at IS NULL
FOR UPDATE;

-- name: told
-- Whether a thing was told of an entry before.
SELECT EXISTS (
  SELECT 1
  FROM verbworker.runbook_event
  WHERE entry_id = $1 AND once = $2
) AS told;

-- name: hold_up
-- A job without a frame stops for a person. Nothing comes back while it stands still already.
INSERT INTO verbworker.parked_token AS token (
  tenant_id, entry_id, instance_uid, engine_id, instance_key, element_instance_key, element_id, kind, reason, job_key
)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'incident', $8, $9)
ON CONFLICT (engine_id, element_instance_key, kind) DO UPDATE SET
  closed_at = NULL, closed_as = NULL, opened_at = clock_timestamp(), job_key = excluded.job_key
WHERE token.closed_at IS NOT NULL
RETURNING token_id;

-- name: let_go
-- And goes on.
UPDATE verbworker.parked_token
SET closed_at = clock_timestamp(), closed_as = 'resolved'
WHERE engine_id = $1 AND element_instance_key = $2 AND kind = 'incident' AND job_key = $3 AND closed_at IS NULL
RETURNING token_id;

-- name: request_cancel
-- Somebody wants an entry to end. The first to ask counts; one that has ended is left.
UPDATE verbworker.runbook_entry
SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp())
WHERE entry_id = $1 AND ended_at IS NULL
RETURNING entry_id;

-- name: is_cancelling
-- Whether somebody wants an entry to end.
SELECT cancel_requested_at IS NOT NULL AS requested
FROM verbworker.runbook_entry
WHERE entry_id = $1;

-- name: cancelling
-- Entries that somebody wants to end and that the engine still has, the longest wait first.
SELECT entry.entry_id
FROM verbworker.runbook_entry AS entry
JOIN verbworker.workflow_instance AS instance ON instance.entry_id = entry.entry_id
WHERE entry.ended_at IS NULL AND entry.cancel_requested_at < clock_timestamp() - $2::interval
  AND instance.engine_id = $1
ORDER BY entry.cancel_requested_at
LIMIT $3;

-- name: done
-- What was done for an entry, or undone, in order.
SELECT detail ->> 'verb' AS verb
FROM verbworker.runbook_event
WHERE entry_id = $1 AND kind = $2
ORDER BY seq;

-- name: first
-- What the first event of a kind said.
SELECT detail
FROM verbworker.runbook_event
WHERE entry_id = $1 AND kind = $2
ORDER BY seq
LIMIT 1;

-- name: stuck
-- Entries that stand still for long, whatever for, named or not; a verb that runs on although its time is over counts.
SELECT
  entry.entry_id, entry.tenant_id, entry.request_key, entry.verb, entry.verb_version, entry.mode, entry.sentence,
  entry.invocation, entry.args, entry.asked_by, entry.status, entry.outcome, entry.process_id, entry.process_version,
  entry.definition_key, entry.provenance, entry.cancel_requested_at, entry.created_at, entry.updated_at, entry.ended_at
FROM (
  SELECT entry_id, min(since) AS since
  FROM (
    SELECT entry_id, since
    FROM verbworker.standstill
    WHERE tenant_id = $1
    UNION ALL
    SELECT instance.entry_id, frame.pushed_at
    FROM verbworker.job_frame AS frame
    JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = frame.instance_uid
    JOIN verbworker.frame_event AS event
      ON event.engine_id = frame.engine_id AND event.job_key = frame.job_key AND event.epoch = frame.epoch
    WHERE instance.tenant_id = $1 AND frame.state = 'started' AND event.kind = 'over time'
  ) AS silent
  WHERE since < statement_timestamp() - $2::interval
  GROUP BY entry_id
) AS still
JOIN verbworker.runbook_entry AS entry ON entry.entry_id = still.entry_id
ORDER BY still.since, entry.entry_id
LIMIT $3;

-- name: moved
-- Entries of which something was told since a moment, for those who follow the whole runbook.
SELECT entry_id, sentence, last_seq, updated_at
FROM verbworker.runbook_entry
WHERE tenant_id = $1 AND ($2::timestamptz IS NULL OR updated_at >= $2)
ORDER BY updated_at, entry_id;

-- name: count_parked
-- How many of a tenant's entries wait for something; counting stops where nobody reads the difference any more.
SELECT count(*) AS parked
FROM (
  SELECT entry_id
  FROM verbworker.runbook_entry
  WHERE tenant_id = $1 AND status = 'parked' AND ended_at IS NULL
  LIMIT $2
) AS waiting;
