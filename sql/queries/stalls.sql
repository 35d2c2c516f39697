-- name: find
-- Stalls that last too long and are not recorded yet, the longest first. A person's task is locked for longer than
-- other jobs, so a process that has one is given that time. The statement's own time may be looked up in an index.
SELECT still.entry_id, still.kind, still.place, still.engine_id, still.instance_key, still.what, still.since
FROM verbworker.standstill AS still
WHERE still.engine_id IN ($1, '') AND still.heard_at < statement_timestamp() - $2::interval
  AND still.since < statement_timestamp() - $2::interval
  AND (
    still.kind <> 'job' OR still.since < statement_timestamp() - $3::interval
    OR NOT EXISTS (
      SELECT 1
      FROM verbworker.process_deployment AS deployment
      WHERE deployment.engine_id = still.engine_id AND deployment.definition_key = still.definition_key
        AND deployment.waits @? '$.*.kind ? (@ == "human_gate")'
    )
  )
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.stall AS noted
    WHERE noted.entry_id = still.entry_id AND noted.kind = still.kind AND noted.place = still.place
  )
ORDER BY still.since
LIMIT $4;

-- name: note
-- Record a stall if it has lasted since then; the entry is locked, so the event about it is its next one.
-- One that another detector is just recording, or that moves, is skipped.
INSERT INTO verbworker.stall (entry_id, kind, place, tenant_id, engine_id, since, seq, reason, remedy)
SELECT still.entry_id, still.kind, still.place, still.tenant_id, still.engine_id, still.since, entry.last_seq + 1, $5, $6
FROM (
  SELECT entry_id, last_seq
  FROM verbworker.runbook_entry
  WHERE entry_id = $1
  FOR UPDATE SKIP LOCKED
) AS entry
JOIN verbworker.standstill AS still ON still.entry_id = entry.entry_id
WHERE still.kind = $2 AND still.place = $3 AND still.since = $4
ON CONFLICT (entry_id, kind, place) DO NOTHING
RETURNING seq;

-- name: resend
-- An engine that was restored from a backup may wait again for messages that ended a wait before. They are sent once more
-- under their ids: an engine that has one takes no second, for as long as the message lives.
UPDATE verbworker.inbox_message AS message
SET resend_at = clock_timestamp()
FROM verbworker.workflow_instance AS instance
WHERE instance.entry_id = $1 AND message.instance_uid = instance.instance_uid AND message.state = 'consumed'
  AND message.expires_at > clock_timestamp() + interval '1 minute';

-- name: clear
-- Forget stalls that are over or that started anew. There are few: all are looked at.
DELETE FROM verbworker.stall AS noted
WHERE noted.engine_id IN ($1, '') AND NOT EXISTS (
  SELECT 1
  FROM verbworker.standstill AS still
  WHERE still.entry_id = noted.entry_id AND still.kind = noted.kind AND still.place = noted.place
    AND still.since = noted.since
);

-- name: counts
-- The number of stalls, for the gauges.
SELECT kind, count(*) AS number
FROM verbworker.stall
WHERE engine_id IN ($1, '')
GROUP BY kind;

-- name: worst
-- The number of stalls of each kind, and the reason of the longest, for the doctor.
SELECT DISTINCT ON (noted.kind)
  noted.kind, noted.entry_id, noted.reason, noted.remedy, clock_timestamp() - noted.since AS longest,
  count(*) OVER (PARTITION BY noted.kind) AS number
FROM verbworker.stall AS noted
WHERE noted.engine_id IN ($1, '')
ORDER BY noted.kind, noted.since;

-- name: of_entry
-- The recorded stalls of one entry.
SELECT kind, since, reason, remedy
FROM verbworker.stall
WHERE entry_id = $1
ORDER BY since;

-- name: last_step
-- The last thing that was done for an entry, to show where it stopped.
SELECT detail ->> 'verb' AS verb, detail ->> 'error_code' AS error_code, at
FROM verbworker.runbook_event
WHERE entry_id = $1 AND kind IN ('StepCompleted', 'Compensated')
ORDER BY seq DESC
LIMIT 1;

-- name: in_engine
-- What the embedded engine's own tables hold of an instance: its incidents, then its jobs. Their keys follow its own.
SELECT incident.kind || ' at ' || incident.element_id || ': ' || incident.message AS words, true AS is_incident
FROM verbworker_engine.incident AS incident
WHERE incident.incident_key BETWEEN $1 AND $1 + 1048575 AND incident.instance_key = $1
UNION ALL
SELECT
  'a job of ' || job.type || ' at ' || job.element_id || CASE
    WHEN job.is_held THEN ', held by its incident'
    WHEN job.due_at > verbworker_engine.now() AND job.worker IS NOT NULL THEN ', handed to ' || job.worker
    WHEN job.due_at > verbworker_engine.now() THEN ', in backoff'
    ELSE ', which no worker has taken'
  END,
  false
FROM verbworker_engine.job AS job
WHERE job.job_key BETWEEN $1 AND $1 + 1048575 AND job.instance_key = $1
ORDER BY is_incident DESC, words;
