-- When a timer should end a wait: its own, one behind it, or one at its edge. Null where there is none, or none that is
-- known beforehand.
ALTER TABLE verbworker.parked_token ADD COLUMN due_at timestamptz;
-- The names of timers at its edge that leave the wait as it is: once one of them fired, nothing is known of the next.
ALTER TABLE verbworker.parked_token ADD COLUMN due_beside text[] NOT NULL DEFAULT '{}';
CREATE INDEX parked_token_due ON verbworker.parked_token (engine_id, due_at)
WHERE closed_at IS NULL AND due_at IS NOT NULL;

-- What was named as standing still, until it moves again. A detector writes and removes the rows; people read them.
CREATE TABLE verbworker.stall (
  entry_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('job', 'backoff', 'timer')),
  -- The job in backoff, or the element instance whose timer is late; empty when it is not known what stands still.
  place text NOT NULL,
  tenant_id text NOT NULL,
  -- Empty for an entry of a direct verb, which needs no engine.
  engine_id text NOT NULL,
  since timestamptz NOT NULL,
  -- The event that told of it: while it is the last one of its entry, nothing has happened since.
  seq bigint NOT NULL,
  reason text NOT NULL,
  remedy text NOT NULL,
  noted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (entry_id, kind, place)
);

-- The one definition of what stands still, since when; the reader says how long is too long. Three kinds:
-- job      The engine has the instance, and nothing of it is with us: no frame, wait, start, delivery, cancel, decision
--          or message under way. Right after a step that is usual; for longer than the engine's timeout it is not.
-- backoff  The engine was asked to hand a job out again at a moment, and that moment is over.
-- timer    A wait is open although its time is up.
-- What was not named stands still no longer than nothing was heard of it: `heard_at` is for those who look for it, since
-- it is known without a look at other tables.
CREATE VIEW verbworker.standstill AS
SELECT
  entry.entry_id, 'job' AS kind, '' AS place, entry.tenant_id, coalesce(instance.engine_id, '') AS engine_id,
  instance.instance_key, instance.definition_key, NULL::text AS what, entry.updated_at AS heard_at,
  greatest(
    -- Our own note of it is no news.
    CASE WHEN noted.seq = entry.last_seq THEN noted.since ELSE entry.updated_at END,
    entry.lease_until,
    (SELECT max(frame.acked_at) FROM verbworker.job_frame AS frame WHERE frame.instance_uid = instance.instance_uid),
    (
      SELECT max(decision.acked_at)
      FROM verbworker.gate_decision AS decision
      WHERE decision.instance_uid = instance.instance_uid
    )
  ) AS since
FROM verbworker.runbook_entry AS entry
LEFT JOIN verbworker.workflow_instance AS instance ON instance.entry_id = entry.entry_id
LEFT JOIN verbworker.stall AS noted ON noted.entry_id = entry.entry_id AND noted.kind = 'job'
WHERE entry.ended_at IS NULL AND entry.status = 'executing' AND entry.cancel_requested_at IS NULL
  AND (entry.lease_until IS NULL OR entry.lease_until < clock_timestamp())
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.parked_token AS token
    WHERE token.entry_id = entry.entry_id AND token.closed_at IS NULL
  )
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.dispatch AS dispatch
    WHERE dispatch.entry_id = entry.entry_id AND dispatch.done_at IS NULL
  )
  -- A frame of a duplicate instance says nothing of this one.
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.job_frame AS frame
    WHERE frame.instance_uid = instance.instance_uid AND frame.acked_at IS NULL
      AND frame.process_instance_key = instance.instance_key
  )
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.job_delivery AS delivery
    WHERE delivery.instance_uid = instance.instance_uid
  )
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.gate_decision AS decision
    WHERE decision.instance_uid = instance.instance_uid AND decision.acked_at IS NULL
  )
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.inbox_message AS message
    WHERE message.instance_uid = instance.instance_uid AND message.state = 'published'
  )
UNION ALL
SELECT
  entry.entry_id, 'backoff', frame.job_key::text, entry.tenant_id, instance.engine_id, instance.instance_key,
  instance.definition_key, frame.verb, frame.reported_at,
  -- The engine counts from when it was told.
  greatest(frame.next_retry_at, frame.reported_at)
FROM verbworker.job_frame AS frame
JOIN verbworker.workflow_instance AS instance
  ON instance.instance_uid = frame.instance_uid AND instance.instance_key = frame.process_instance_key
  AND instance.engine_id = frame.engine_id
JOIN verbworker.runbook_entry AS entry ON entry.entry_id = instance.entry_id
WHERE frame.state = 'failed' AND frame.reported_at IS NOT NULL AND frame.acked_at IS NULL
  AND entry.ended_at IS NULL AND entry.cancel_requested_at IS NULL
UNION ALL
SELECT
  entry.entry_id, 'timer', token.element_instance_key::text, entry.tenant_id, token.engine_id, token.instance_key,
  instance.definition_key, token.reason, token.due_at, token.due_at
FROM verbworker.parked_token AS token
JOIN verbworker.runbook_entry AS entry ON entry.entry_id = token.entry_id
JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = token.instance_uid
WHERE token.closed_at IS NULL AND token.due_at IS NOT NULL
  AND entry.ended_at IS NULL AND entry.cancel_requested_at IS NULL
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.job_delivery AS delivery
    WHERE delivery.instance_uid = token.instance_uid
  )
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.runbook_event AS fired
    WHERE fired.entry_id = token.entry_id AND fired.kind = 'TimerFired'
      AND fired.detail ->> 'name' = ANY (token.due_beside)
  );
