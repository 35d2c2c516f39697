-- name: hold
-- The entry and what speaks against erasing it: it is open, or something of it may still be sent or run.
SELECT entry.entry_id, entry.ended_at IS NOT NULL AS is_ended,
  (
    SELECT count(*)
    FROM verbworker.workflow_instance AS instance
    JOIN verbworker.job_frame AS frame ON frame.instance_uid = instance.instance_uid
    WHERE instance.entry_id = entry.entry_id AND (
      frame.state = 'completed' AND frame.acked_at IS NULL
      OR frame.state = 'started' AND frame.lease_until > clock_timestamp()
    )
  ) + (
    SELECT count(*) FROM verbworker.workflow_instance AS instance
    WHERE instance.entry_id = entry.entry_id AND instance.ended_at IS NULL
  ) + (
    SELECT count(*) FROM verbworker.inbox_message AS message
    WHERE message.state = 'received' AND (message.entry_id = entry.entry_id OR message.instance_uid IN (
      SELECT instance_uid FROM verbworker.workflow_instance WHERE entry_id = entry.entry_id))
  ) + (
    SELECT count(*) FROM verbworker.gate_decision AS decision
    WHERE decision.entry_id = entry.entry_id AND decision.acked_at IS NULL
  ) AS unsettled
FROM verbworker.runbook_entry AS entry
WHERE entry.entry_id = $1 AND entry.tenant_id = $2
FOR UPDATE OF entry;

-- name: chain
-- Where the chain of the entry is after its erasure, for the seal.
SELECT tenant_id, last_seq, last_hash
FROM verbworker.runbook_entry
WHERE entry_id = $1;

-- name: messages
-- The messages of an entry, as the engine and the dead letters know them.
SELECT tenant_id, message_id, generation
FROM verbworker.inbox_message
WHERE entry_id = $1 OR instance_uid IN (SELECT instance_uid FROM verbworker.workflow_instance WHERE entry_id = $1)
ORDER BY tenant_id, message_id;

-- name: keys
-- The correlation keys of an entry that no open case has too.
SELECT DISTINCT instance.tenant_id, key.value AS correlation_key
FROM verbworker.workflow_instance AS instance, jsonb_each_text(instance.correlation) AS key
WHERE instance.entry_id = $1 AND NOT EXISTS (
  SELECT 1 FROM verbworker.workflow_instance AS other
  WHERE other.ended_at IS NULL AND other.tenant_id = instance.tenant_id
    AND other.correlation @> jsonb_build_object(key.key, instance.correlation -> key.key)
);

-- name: payload_head
-- The payload itself; the hash of every version stays.
DELETE FROM verbworker.payload_head
WHERE instance_uid IN (SELECT instance_uid FROM verbworker.workflow_instance WHERE entry_id = $1);

-- name: payload_version
-- Flags that steps set; a text may name a person.
UPDATE verbworker.payload_version
SET flags = NULL
WHERE instance_uid IN (SELECT instance_uid FROM verbworker.workflow_instance WHERE entry_id = $1) AND flags IS NOT NULL;

-- name: job_frame
-- Results of jobs; their hashes and seals stay.
UPDATE verbworker.job_frame
SET output = NULL, flags = NULL, correlation = NULL, fail_text = NULL
WHERE instance_uid IN (SELECT instance_uid FROM verbworker.workflow_instance WHERE entry_id = $1)
  AND num_nonnulls(output, flags, correlation, fail_text) > 0;

-- name: job_frame_archive
-- The same of archived frames.
UPDATE verbworker.job_frame_archive
SET output = NULL, flags = NULL, correlation = NULL, fail_text = NULL
WHERE instance_uid IN (SELECT instance_uid FROM verbworker.workflow_instance WHERE entry_id = $1)
  AND num_nonnulls(output, flags, correlation, fail_text) > 0;

-- name: frame_event
-- What was noted about its jobs in words.
UPDATE verbworker.frame_event AS event
SET detail = ''
FROM (
  SELECT frame.engine_id, frame.job_key FROM verbworker.job_frame AS frame
  JOIN verbworker.workflow_instance AS instance USING (instance_uid) WHERE instance.entry_id = $1
  UNION
  SELECT frame.engine_id, frame.job_key FROM verbworker.job_frame_archive AS frame
  JOIN verbworker.workflow_instance AS instance USING (instance_uid) WHERE instance.entry_id = $1
) AS job
WHERE event.engine_id = job.engine_id AND event.job_key = job.job_key AND event.detail <> '';

-- name: frame_conflict
-- Deliveries under the key of one of its jobs, and its own deliveries under another key.
UPDATE verbworker.frame_conflict AS conflict
SET frame = '{}', delivery = '{}'
FROM verbworker.workflow_instance AS instance
WHERE instance.entry_id = $1 AND (conflict.frame, conflict.delivery) <> ('{}', '{}') AND (
  instance.instance_uid::text IN (conflict.frame ->> 'instance_uid', conflict.delivery ->> 'instance_uid')
  OR EXISTS (
    SELECT 1 FROM verbworker.job_frame AS held
    WHERE held.engine_id = conflict.engine_id AND held.job_key = conflict.job_key
      AND held.instance_uid = instance.instance_uid)
  OR EXISTS (
    SELECT 1 FROM verbworker.job_frame_archive AS held
    WHERE held.engine_id = conflict.engine_id AND held.job_key = conflict.job_key
      AND held.instance_uid = instance.instance_uid)
);

-- name: compensation_record
-- What undo steps were given.
UPDATE verbworker.compensation_record
SET variables = '{}'
WHERE entry_id = $1 AND variables <> '{}';

-- name: dispatch
-- What the process was started with.
UPDATE verbworker.dispatch
SET variables = '', last_error = NULL
WHERE entry_id = $1 AND (variables <> '' OR last_error IS NOT NULL);

-- name: parked_token
-- What it waited for, in words and by key. Who claimed it stays, with claimed_by_id.
UPDATE verbworker.parked_token
SET reason = '', detail = '{}', correlation_key = NULL, incident_text = NULL, assign_trouble = NULL
WHERE entry_id = $1
  AND (reason <> '' OR detail <> '{}' OR num_nonnulls(correlation_key, incident_text, assign_trouble) > 0);

-- name: gate_decision
-- Reasons of decisions, what was filled in with them, and what the engine said to them. What was decided, by whom
-- (decided_by_id too) and when stays.
UPDATE verbworker.gate_decision
SET reason = '', inputs = '{}', last_error = NULL
WHERE entry_id = $1 AND (reason <> '' OR inputs <> '{}' OR last_error IS NOT NULL);

-- name: stall
-- Why it stood still, if that was noted.
DELETE FROM verbworker.stall
WHERE entry_id = $1;

-- name: dead_letter
-- Messages for it that could not be delivered: by the entry, by their id ($2, $3), or by a key of its own ($4, $5). One that
-- waits for a person is discarded, because nothing is left to redeliver.
UPDATE verbworker.dead_letter AS letter
SET body = NULL, reason = '', correlation_key = NULL, resolved_reason = NULL,
  state = CASE letter.state WHEN 'open' THEN 'discarded' ELSE letter.state END,
  resolved_at = coalesce(letter.resolved_at, clock_timestamp()),
  resolved_by = coalesce(letter.resolved_by, 'erasure')
WHERE (
    letter.entry_id = $1
    OR (letter.tenant_id, letter.message_id) IN (SELECT * FROM unnest($2::text[], $3::text[]))
    OR (letter.tenant_id, letter.correlation_key) IN (SELECT * FROM unnest($4::text[], $5::text[]))
  )
  AND (letter.reason <> '' OR letter.state = 'open'
    OR num_nonnulls(letter.body, letter.correlation_key, letter.resolved_reason) > 0);

-- name: inbox_message
-- Messages: those of the entry, and those under its keys ($2, $3) that no case can receive any more.
UPDATE verbworker.inbox_message AS message
SET payload = NULL, correlation_key = '', correlation_id = NULL, causation_id = NULL, traceparent = NULL,
  workflow_id = NULL, last_error = NULL,
  state = CASE message.state WHEN 'dead' THEN 'discarded' ELSE message.state END,
  discarded_at = CASE message.state WHEN 'dead' THEN clock_timestamp() ELSE message.discarded_at END
WHERE (
    message.entry_id = $1
    OR message.instance_uid IN (SELECT instance_uid FROM verbworker.workflow_instance WHERE entry_id = $1)
    OR message.state IN ('dead', 'discarded')
      AND (message.tenant_id, message.correlation_key) IN (SELECT * FROM unnest($2::text[], $3::text[]))
  )
  AND (message.correlation_key <> ''
    OR num_nonnulls(message.payload, message.correlation_id, message.causation_id, message.traceparent,
      message.workflow_id, message.last_error) > 0);

-- name: engine_message
-- Messages that the embedded engine still has, by the ids it knows them under.
UPDATE verbworker_engine.message
SET variables = '{}'
WHERE message_id = ANY ($2::text[]) AND $1::uuid IS NOT NULL AND variables <> '{}';

-- name: ended_instance
-- The embedded engine's history.
UPDATE verbworker_engine.ended_instance AS ended
SET variables = '{}'
FROM verbworker.workflow_instance AS instance, verbworker_engine.identity AS own
WHERE instance.entry_id = $1 AND instance.engine_id = own.engine_id AND ended.instance_key = instance.instance_key
  AND ended.variables <> '{}';

-- name: workflow_instance
-- Keys under which messages found it.
UPDATE verbworker.workflow_instance
SET business_key = NULL, correlation = '{}'
WHERE entry_id = $1 AND (business_key IS NOT NULL OR correlation <> '{}');

-- name: runbook_entry
-- What was asked and answered. Who asked stays, with asked_by_id, and so do the digests, which say nothing without
-- their salt. The hash of the request has none, so it goes.
UPDATE verbworker.runbook_entry
SET sentence = verb || ' (erased)', invocation = '(' || verb || ')', args = '{}', provenance = '{}', traceparent = NULL,
  outcome = CASE WHEN outcome IS NULL THEN NULL ELSE '{}'::bytea END,
  request_key = CASE WHEN request_key IS NOT NULL THEN 'erased:' || entry_id END, request_hash = '', salt = NULL
WHERE entry_id = $1 AND (sentence <> verb || ' (erased)' OR salt IS NOT NULL);

-- name: runbook_event
-- Take from each event what is neither a name of ours nor a number, with its salt, and return the old hash with the hash of
-- what is left.
WITH previous AS (
  SELECT event.entry_id, event.seq,
    coalesce(lag(event.hash) OVER (ORDER BY event.seq), verbworker.first_hash(entry.entry_id, entry.asked)) AS hash
  FROM verbworker.runbook_event AS event
  JOIN verbworker.runbook_entry AS entry ON entry.entry_id = event.entry_id
  WHERE event.entry_id = $1
),
less AS (
  SELECT event.entry_id, event.seq,
    coalesce((
      SELECT jsonb_object_agg(part.key, part.value) FROM jsonb_each(event.detail) AS part WHERE part.key = ANY ($2::text[])
    ), '{}') AS detail,
    CASE WHEN event.kind = ANY ($3::text[]) THEN 'erased:' || event.seq ELSE event.once END AS once
  FROM verbworker.runbook_event AS event
  WHERE event.entry_id = $1 AND event.kind <> 'Erased'
)
UPDATE verbworker.runbook_event AS event
SET detail = less.detail, once = less.once, salt = NULL
FROM less
JOIN previous USING (entry_id, seq)
WHERE event.entry_id = less.entry_id AND event.seq = less.seq
  AND ((event.detail, event.once) IS DISTINCT FROM (less.detail, less.once)
    OR event.salt IS NOT NULL AND event.digests IS NOT NULL)
RETURNING event.seq, encode(event.hash, 'hex') AS hash, encode(verbworker.event_hash(
  previous.hash, event.entry_id, event.seq, event.at, event.kind, event.once, event.detail, event.status, event.salt,
  event.digests), 'hex') AS left_hash;
