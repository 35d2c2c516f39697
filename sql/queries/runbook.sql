-- name: open
-- A new entry, or nothing when the tenant used this request key before.
INSERT INTO verbworker.runbook_entry (
  entry_id, tenant_id, request_key, request_hash, verb, verb_version, mode, sentence, invocation, args, asked_by,
  provenance, traceparent, process_id, asked_by_id
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (tenant_id, request_key) DO NOTHING
RETURNING entry_id;

-- name: open_within
-- The same for a tenant with quotas. `quota` names the one that is used up; then nothing is written. A request key that
-- the tenant used before is no new start. Open cases are counted up to the quota, by an index; starts are counted in a row
-- of this session and minute, so that no start of the tenant waits for another. What others have not committed is not
-- seen: as many starts as are under way at one moment may pass beyond the quota.
WITH used AS MATERIALIZED (
  SELECT CASE
    WHEN EXISTS (SELECT 1 FROM verbworker.runbook_entry WHERE tenant_id = $2 AND request_key = $3) THEN NULL
    WHEN $16::bigint IS NOT NULL AND (
      SELECT sum(minute.requests)
      FROM verbworker.tenant_use AS minute
      WHERE minute.tenant_id = $2 AND minute.kind = 'starts'
        AND minute.minute = date_trunc('minute', statement_timestamp())
    ) >= $16 THEN 'starts_per_minute'
    WHEN $17::bigint IS NOT NULL AND (
      SELECT count(*)
      FROM (SELECT 1 FROM verbworker.runbook_entry WHERE tenant_id = $2 AND ended_at IS NULL LIMIT $17) AS open_entry
    ) >= $17 THEN 'open_cases'
  END AS quota
),
made AS (
  INSERT INTO verbworker.runbook_entry (
    entry_id, tenant_id, request_key, request_hash, verb, verb_version, mode, sentence, invocation, args, asked_by,
    provenance, traceparent, process_id, asked_by_id
  )
  SELECT $1::uuid, $2::text, $3::text, $4::bytea, $5::text, $6::text, $7::text, $8::text, $9::text, $10::bytea, $11::text,
    $12::jsonb, $13::text, $14::text, $15::uuid
  FROM used
  WHERE used.quota IS NULL
  ON CONFLICT (tenant_id, request_key) DO NOTHING
  RETURNING entry_id
),
counted AS (
  INSERT INTO verbworker.tenant_use AS minute (tenant_id, kind, minute, backend, requests, bytes)
  SELECT $2, 'starts', date_trunc('minute', statement_timestamp()), pg_backend_pid(), 1, 0
  FROM made
  WHERE $16 IS NOT NULL
  ON CONFLICT (tenant_id, kind, minute, backend) DO UPDATE SET requests = minute.requests + 1
)
SELECT (SELECT made.entry_id FROM made) AS entry_id, used.quota,
  ceil(60 - extract(second FROM statement_timestamp()))::integer AS seconds
FROM used;

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

-- name: traceparent
-- The trace an entry was requested in. Read only while tracing is on, once per case and process.
SELECT traceparent
FROM verbworker.runbook_entry
WHERE entry_id = $1;

-- name: events
-- What happened to an entry after one of its events, in order.
SELECT entry_id, seq, at, kind, detail, status, hash
FROM verbworker.runbook_event
WHERE entry_id = $1 AND seq > $2
ORDER BY seq
LIMIT $3;

-- name: append
-- Record one event once; null if it is recorded already or the entry is unknown.
SELECT verbworker.append_event($1, $2, $3, $4) AS seq;

-- name: park
-- What an entry waits for. A repeated one only confirms that it is still waiting.
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
-- A wait that had ended is there again: the engine forgot its end.
UPDATE verbworker.parked_token
SET closed_at = NULL, closed_as = NULL
WHERE engine_id = $1 AND element_instance_key = $3 AND kind = $4 AND entry_id = $2 AND closed_at IS NOT NULL
RETURNING token_id;

-- name: displace
-- The engine waits at this visit under another key now: the wait under the old one is over.
UPDATE verbworker.parked_token
SET closed_at = clock_timestamp(), closed_as = 'gone'
WHERE entry_id = $2 AND closed_at IS NULL AND kind = $4 AND element_id = $5 AND input_hash = $6
  AND (engine_id, element_instance_key) <> ($1, $3);

-- name: unpark
-- The wait of one element instance is over.
UPDATE verbworker.parked_token
SET closed_at = clock_timestamp(), closed_as = $3
WHERE engine_id = $1 AND element_instance_key = $2 AND kind <> 'incident' AND closed_at IS NULL
RETURNING token_id, entry_id, kind, reason, gate, message_name, correlation_key, input_hash;

-- name: unpark_elements
-- Every wait at some places of an instance is over: a boundary event fired, or another branch of a choice was taken.
-- A task that the engine withdrew just before was withdrawn because of that.
UPDATE verbworker.parked_token
SET closed_at = clock_timestamp(), closed_as = $4
WHERE engine_id = $1 AND instance_key = $2 AND element_id = ANY ($3::text[])
  AND (closed_at IS NULL OR closed_as = 'canceled')
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
-- And open waits before entries: a transaction that closes a wait has it locked when it asks for the entry.
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
-- Whether an event of an entry is recorded already.
SELECT EXISTS (
  SELECT 1
  FROM verbworker.runbook_event
  WHERE entry_id = $1 AND once = $2
) AS told;

-- name: hold_up
-- A job without a frame stops for a person. No row if it is stopped already.
INSERT INTO verbworker.parked_token AS token (
  tenant_id, entry_id, instance_uid, engine_id, instance_key, element_instance_key, element_id, kind, reason, job_key
)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'incident', $8, $9)
ON CONFLICT (engine_id, element_instance_key, kind) DO UPDATE SET
  closed_at = NULL, closed_as = NULL, opened_at = clock_timestamp(), job_key = excluded.job_key
WHERE token.closed_at IS NOT NULL
RETURNING token_id;

-- name: let_go
-- And continues.
UPDATE verbworker.parked_token
SET closed_at = clock_timestamp(), closed_as = 'resolved'
WHERE engine_id = $1 AND element_instance_key = $2 AND kind = 'incident' AND job_key = $3 AND closed_at IS NULL
RETURNING token_id;

-- name: request_cancel
-- Request the end of an entry. The first request counts; an entry that has ended is left alone.
UPDATE verbworker.runbook_entry
SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp())
WHERE entry_id = $1 AND ended_at IS NULL
RETURNING entry_id;

-- name: is_cancelling
-- Whether the end of an entry is requested.
SELECT cancel_requested_at IS NOT NULL AS requested
FROM verbworker.runbook_entry
WHERE entry_id = $1;

-- name: cancelling
-- Entries whose end is requested and that the engine still has, the longest wait first.
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

-- name: under_way
-- Steps of an entry whose effect is not known when it is cancelled: those that run or whose worker died, external calls
-- that left no answer, and what a worker stopped because the cancel came first.
SELECT frame.verb, frame.element_id, frame.idempotency_key, frame.mode::text AS mode
FROM verbworker.workflow_instance AS instance
JOIN verbworker.runbook_entry AS entry ON entry.entry_id = instance.entry_id
JOIN verbworker.job_frame AS frame ON frame.instance_uid = instance.instance_uid
WHERE instance.entry_id = $1
  AND (
    frame.state = 'started'
    OR frame.state IN ('failed', 'incident') AND frame.mode = 'external' AND (
      frame.acked_at IS NULL AND frame.fail_code IN ('OutcomeUnknown', 'Timeout', 'NotStored')
      OR frame.fail_code = 'JobGone' AND frame.popped_at >= coalesce(entry.cancel_requested_at, entry.updated_at)
    )
  )
ORDER BY frame.pushed_at, frame.job_key;

-- name: released
-- Held jobs of an entry that a person released and the engine has not handed out since.
SELECT frame.verb, frame.job_key, event.at
FROM verbworker.workflow_instance AS instance
JOIN verbworker.job_frame AS frame ON frame.instance_uid = instance.instance_uid
JOIN verbworker.frame_event AS event
  ON event.engine_id = frame.engine_id AND event.job_key = frame.job_key AND event.epoch = frame.epoch
WHERE instance.entry_id = $1 AND instance.ended_at IS NULL AND frame.state = 'failed' AND frame.acked_at IS NULL
  AND event.kind = 'released'
ORDER BY event.at, frame.job_key;

-- name: first
-- The detail of the first event of a kind.
SELECT detail
FROM verbworker.runbook_event
WHERE entry_id = $1 AND kind = $2
ORDER BY seq
LIMIT 1;

-- name: stuck
-- Open entries that should have moved long ago, with the reason: stalled ones, a verb that still runs after its
-- deadline, a job held for a person, and what the engine has not accepted: a start, a verdict, a decision, a cancel.
SELECT
  entry.entry_id, entry.tenant_id, entry.request_key, entry.verb, entry.verb_version, entry.mode, entry.sentence,
  entry.invocation, entry.args, entry.asked_by, entry.status, entry.outcome, entry.process_id, entry.process_version,
  entry.definition_key, entry.provenance, entry.cancel_requested_at, entry.created_at, entry.updated_at, entry.ended_at,
  still.since, still.reason
FROM (
  SELECT DISTINCT ON (entry_id) entry_id, since, reason
  FROM (
    SELECT
      entry_id, since,
      CASE kind
        WHEN 'job' THEN 'the engine has it, and nothing of it is under way'
        WHEN 'backoff' THEN 'the retry of ' || what || ' is overdue'
        WHEN 'message' THEN 'the message ' || what || ' came, and its wait did not end'
        ELSE 'its timer is overdue: ' || what
      END AS reason
    FROM verbworker.standstill
    WHERE tenant_id = $1
    UNION ALL
    SELECT instance.entry_id, frame.pushed_at, frame.verb || ' still runs past its time limit'
    FROM verbworker.job_frame AS frame
    JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = frame.instance_uid
    JOIN verbworker.frame_event AS event
      ON event.engine_id = frame.engine_id AND event.job_key = frame.job_key AND event.epoch = frame.epoch
    WHERE instance.tenant_id = $1 AND frame.state = 'started' AND event.kind = 'over time'
    UNION ALL
    SELECT
      instance.entry_id, coalesce(frame.popped_at, frame.pushed_at),
      frame.verb || ' is held for a person: ' || coalesce(frame.fail_code, 'no reason') || ' (job ' || frame.job_key || ')'
    FROM verbworker.job_frame AS frame
    JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = frame.instance_uid
    WHERE instance.tenant_id = $1 AND frame.state = 'incident'
    UNION ALL
    SELECT token.entry_id, token.opened_at, 'it is held for a person: ' || token.reason
    FROM verbworker.parked_token AS token
    WHERE token.tenant_id = $1 AND token.kind = 'incident' AND token.closed_at IS NULL
    UNION ALL
    SELECT
      instance.entry_id, frame.popped_at, 'the engine has not taken the result of ' || frame.verb
    FROM verbworker.job_frame AS frame
    JOIN verbworker.workflow_instance AS instance
      ON instance.instance_uid = frame.instance_uid AND instance.instance_key = frame.process_instance_key
    WHERE instance.tenant_id = $1 AND frame.state = 'completed' AND frame.acked_at IS NULL
    UNION ALL
    SELECT
      dispatch.entry_id, dispatch.created_at,
      'it waits to be started on the engine ' || dispatch.engine_id
        || coalesce(': ' || dispatch.last_error, '; no worker of that engine asked it, or it did not answer')
    FROM verbworker.dispatch AS dispatch
    WHERE dispatch.done_at IS NULL
    UNION ALL
    SELECT
      decision.entry_id, decision.decided_at,
      'the engine has not taken the decision at ' || decision.gate || coalesce(': ' || decision.last_error, '')
    FROM verbworker.gate_decision AS decision
    WHERE decision.tenant_id = $1 AND decision.acked_at IS NULL
    UNION ALL
    SELECT waiting.entry_id, waiting.cancel_requested_at, 'the engine has not taken the cancel request'
    FROM verbworker.runbook_entry AS waiting
    WHERE waiting.tenant_id = $1 AND waiting.ended_at IS NULL AND waiting.cancel_requested_at IS NOT NULL
  ) AS silent
  WHERE since < statement_timestamp() - $2::interval
  ORDER BY entry_id, since, reason
) AS still
JOIN verbworker.runbook_entry AS entry ON entry.entry_id = still.entry_id
WHERE entry.tenant_id = $1 AND entry.ended_at IS NULL
  AND ($4::timestamptz IS NULL OR (still.since, entry.entry_id) > ($4, $5::uuid))
ORDER BY still.since, entry.entry_id
LIMIT $3;

-- name: moved
-- Entries with events since a moment, for viewers of the whole runbook.
SELECT entry_id, sentence, last_seq, updated_at
FROM verbworker.runbook_entry
WHERE tenant_id = $1 AND ($2::timestamptz IS NULL OR updated_at >= $2)
ORDER BY updated_at, entry_id;

-- name: count_parked
-- How many of a tenant's entries wait for something; counting stops where the difference no longer matters.
SELECT count(*) AS parked
FROM (
  SELECT entry_id
  FROM verbworker.runbook_entry
  WHERE tenant_id = $1 AND status = 'parked' AND ended_at IS NULL
  LIMIT $2
) AS waiting;
