-- A fourth kind of standstill: a wait is open although its message was published. The engine correlates a message with a
-- wait in the same moment, so the listener that reports the end of the wait was handed out, or is lost.
ALTER TABLE verbworker.stall DROP CONSTRAINT stall_kind_check;
ALTER TABLE verbworker.stall ADD CONSTRAINT stall_kind_check CHECK (kind IN ('job', 'backoff', 'timer', 'message'));

CREATE OR REPLACE VIEW verbworker.standstill AS
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
    ),
    (
      SELECT max(message.published_at)
      FROM verbworker.inbox_message AS message
      WHERE message.engine_id = instance.engine_id AND message.instance_uid = instance.instance_uid
        AND message.state = 'published'
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
  )
UNION ALL
SELECT
  entry.entry_id, 'message', token.element_instance_key::text, entry.tenant_id, token.engine_id, token.instance_key,
  instance.definition_key, token.message_name, greatest(token.opened_at, sent.published_at),
  greatest(token.opened_at, sent.published_at)
FROM (
  SELECT engine_id, instance_uid, message_name, correlation_key, min(published_at) AS published_at,
    max(expires_at) AS expires_at
  FROM verbworker.inbox_message
  WHERE state = 'published'
  GROUP BY engine_id, instance_uid, message_name, correlation_key
) AS sent
JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = sent.instance_uid
JOIN verbworker.runbook_entry AS entry ON entry.entry_id = instance.entry_id
JOIN verbworker.parked_token AS token
  ON token.entry_id = entry.entry_id AND token.engine_id = sent.engine_id
  AND token.message_name = sent.message_name AND token.correlation_key = sent.correlation_key
WHERE token.closed_at IS NULL AND entry.ended_at IS NULL AND entry.cancel_requested_at IS NULL
  -- One that expired before is not buffered for this wait.
  AND sent.expires_at > token.opened_at
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.job_delivery AS delivery
    WHERE delivery.instance_uid = instance.instance_uid
  );
