-- name: page
-- One page of a tenant's entries, newest first, from a key on; with what each waits for and how far it is.
WITH page AS (
  SELECT
    entry_id, tenant_id, request_key, verb, verb_version, mode, sentence, invocation, args, asked_by, status, outcome,
    process_id, process_version, definition_key, provenance, cancel_requested_at, created_at, updated_at, ended_at
  FROM verbworker.runbook_entry
  WHERE tenant_id = $1
    AND ($2::text IS NULL OR status = $2)
    -- Repeated for the index of open entries, which is short.
    AND ($2 IS NULL OR $2 NOT IN ('executing', 'parked') OR ended_at IS NULL)
    AND ($3::text IS NULL OR verb = $3)
    AND ($4::text IS NULL OR sentence ILIKE $4 OR asked_by ILIKE $4 OR verb ILIKE $4)
    AND ($5::uuid IS NULL OR entry_id = $5)
    AND created_at <= coalesce($6::timestamptz, 'infinity')
    AND (created_at, entry_id) < (coalesce($6, 'infinity'), coalesce($7::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
  ORDER BY created_at DESC, entry_id DESC
  LIMIT $8
)
SELECT
  page.entry_id, page.tenant_id, page.request_key, page.verb, page.verb_version, page.mode, page.sentence,
  page.invocation, page.args, page.asked_by, page.status, page.outcome, page.process_id, page.process_version,
  page.definition_key, page.provenance, page.cancel_requested_at, page.created_at, page.updated_at, page.ended_at,
  steps_done.done, steps_done.repeats,
  -- A direct verb's outcome is an object; only a string is a name, and `ok` is not one.
  (
    SELECT nullif(told.detail ->> 'outcome', 'ok')
    FROM verbworker.runbook_event AS told
    WHERE told.entry_id = page.entry_id
      AND page.ended_at IS NOT NULL
      AND told.kind = 'ExecutionResult'
      AND jsonb_typeof(told.detail -> 'outcome') = 'string'
    ORDER BY told.seq
    LIMIT 1
  ) AS outcome_name,
  ARRAY(
    SELECT token.reason
    FROM verbworker.parked_token AS token
    WHERE token.entry_id = page.entry_id AND token.closed_at IS NULL
    ORDER BY token.opened_at, token.token_id
  ) AS waits,
  coalesce((
    SELECT jsonb_agg(
      jsonb_build_object('kind', stall.kind, 'since', stall.since, 'reason', stall.reason, 'remedy', stall.remedy)
      ORDER BY stall.since
    )
    FROM verbworker.stall AS stall
    WHERE stall.entry_id = page.entry_id
  ), '[]') AS stalls,
  coalesce((
    SELECT deployment.steps
    FROM verbworker.workflow_instance AS instance
    JOIN verbworker.process_deployment AS deployment
      ON deployment.engine_id = instance.engine_id AND deployment.definition_key = page.definition_key
    WHERE instance.entry_id = page.entry_id
    LIMIT 1
  ), 0) AS steps
FROM page
CROSS JOIN LATERAL (
  SELECT
    count(*) AS done,
    count(*) - count(DISTINCT coalesce(told.detail ->> 'element', told.detail ->> 'verb', told.detail ->> 'gate'))
      AS repeats
  FROM verbworker.runbook_event AS told
  WHERE told.entry_id = page.entry_id AND told.kind IN ('StepCompleted', 'GateDecided')
) AS steps_done
ORDER BY page.created_at DESC, page.entry_id DESC;

-- name: counts
-- How many entries have which status: all open ones, and the newest of those that ended, so that it stays cheap.
SELECT status, count(*) AS entries
FROM verbworker.runbook_entry
WHERE tenant_id = $1 AND ended_at IS NULL
GROUP BY status
UNION ALL
SELECT newest.status, count(*)
FROM (
  SELECT status, ended_at
  FROM verbworker.runbook_entry
  WHERE tenant_id = $1
  ORDER BY created_at DESC
  LIMIT $2
) AS newest
WHERE newest.ended_at IS NOT NULL
GROUP BY newest.status;

-- name: verbs
-- The verbs of a tenant's newest entries, to choose from.
SELECT DISTINCT newest.verb
FROM (
  SELECT verb
  FROM verbworker.runbook_entry
  WHERE tenant_id = $1
  ORDER BY created_at DESC
  LIMIT $2
) AS newest
ORDER BY newest.verb;

-- name: messages
-- What came from outside for an entry; never what is inside.
SELECT message.message_name, message.message_id, message.correlation_key, message.state, message.sent_by,
  message.received_at
FROM verbworker.workflow_instance AS instance
JOIN verbworker.inbox_message AS message ON message.instance_uid = instance.instance_uid
WHERE instance.entry_id = $1
ORDER BY message.received_at, message.message_id
LIMIT $2;

-- name: troubles
-- What waits for an operator, from a key on: the open incidents of a tenant with their frames; on request also those of
-- plain processes, and held frames that no entry knows, which have no id: their key is made of their engine and job.
SELECT
  incident_id, engine_id, job_key, entry_id, element_id, reason, since, sentence, verb, state, runs, retries_left,
  fail_class, fail_code, fail_text, instance_key, incident_key, incident_type, incident_text, process_id, is_plain
FROM (
  SELECT
    token.token_id AS incident_id, token.engine_id, token.job_key, token.entry_id, token.element_id, token.reason,
    token.opened_at AS since, entry.sentence, frame.verb, frame.state::text AS state, frame.runs, frame.retries_left,
    frame.fail_class, frame.fail_code, frame.fail_text, token.instance_key, token.incident_key, token.incident_type,
    token.incident_text, entry.process_id, false AS is_plain
  FROM verbworker.parked_token AS token
  LEFT JOIN verbworker.runbook_entry AS entry ON entry.entry_id = token.entry_id
  LEFT JOIN verbworker.job_frame AS frame ON frame.engine_id = token.engine_id AND frame.job_key = token.job_key
  WHERE token.kind = 'incident' AND token.closed_at IS NULL AND token.tenant_id = $1
    AND ($3::bigint IS NULL OR token.job_key = $3 OR token.incident_key = $3)
    AND ($5::uuid IS NULL OR token.token_id = $5 OR token.entry_id = $5)
  UNION ALL
  SELECT
    incident.incident_id, incident.engine_id, incident.job_key, NULL, incident.element_id,
    'Waiting for an operator: ' || coalesce(frame.verb, incident.element_id) || ' of the plain process '
      || incident.process_id,
    incident.raised_at, NULL, frame.verb, frame.state::text, frame.runs, frame.retries_left, frame.fail_class,
    frame.fail_code, frame.fail_text, incident.instance_key, incident.incident_key, incident.kind, incident.message,
    incident.process_id, true
  FROM verbworker.plain_incident AS incident
  LEFT JOIN verbworker.job_frame AS frame ON frame.engine_id = incident.engine_id AND frame.job_key = incident.job_key
  WHERE incident.closed_at IS NULL AND $2::boolean
    AND ($3::bigint IS NULL OR incident.job_key = $3 OR incident.incident_key = $3)
    AND ($5::uuid IS NULL OR incident.incident_id = $5)
  UNION ALL
  SELECT
    NULL, held.engine_id, held.job_key, held.entry_id, held.element_id,
    'Waiting for an operator: ' || held.verb || CASE
      WHEN held.is_plain THEN ' of the plain process ' || held.process_id
      ELSE ''
    END,
    held.since, NULL, held.verb, held.state, held.runs, held.retries_left, held.fail_class, held.fail_code,
    held.fail_text, held.process_instance_key, NULL, NULL, NULL, held.process_id, held.is_plain
  FROM (
    SELECT
      frame.engine_id, frame.job_key, frame.entry_id, frame.element_id, frame.verb,
      coalesce(frame.popped_at, frame.pushed_at) AS since, frame.state::text AS state, frame.runs, frame.retries_left,
      frame.fail_class, frame.fail_code, frame.fail_text, frame.process_instance_key, frame.process_id,
      frame.instance_uid IS NULL AND NOT EXISTS (
        SELECT 1
        FROM verbworker.process_deployment AS deployment
        WHERE deployment.engine_id = frame.engine_id AND deployment.process_id = frame.process_id
          AND deployment.version = frame.process_version AND deployment.verb <> 'plain'
      ) AS is_plain
    FROM verbworker.job_frame AS frame
    WHERE frame.state = 'incident' AND $2::boolean AND $5::uuid IS NULL
      AND ($3::bigint IS NULL OR frame.job_key = $3)
      AND NOT EXISTS (
        SELECT 1
        FROM verbworker.workflow_instance AS instance
        WHERE instance.instance_uid = frame.instance_uid
      )
      AND NOT EXISTS (
        SELECT 1
        FROM verbworker.plain_incident AS incident
        WHERE incident.engine_id = frame.engine_id AND incident.job_key = frame.job_key AND incident.closed_at IS NULL
      )
  ) AS held
) AS trouble
CROSS JOIN LATERAL (
  SELECT coalesce(trouble.incident_id, md5(trouble.engine_id || '/' || trouble.job_key)::uuid) AS row_id
) AS place
WHERE $6::timestamptz IS NULL OR (since, row_id) > ($6, $7::uuid)
ORDER BY since, row_id
LIMIT $4;

-- name: watched
-- The last event number of some entries, for viewers of these entries.
SELECT entry_id, last_seq
FROM verbworker.runbook_entry
WHERE entry_id = ANY ($1::uuid[]);

-- name: fingerprints
-- What changes without an entry's status changing: who has which gate, and letters that came or were decided.
SELECT
  (
    SELECT concat_ws('/', count(*), max(opened_at), count(claimed_at), max(claimed_at))
    FROM verbworker.parked_token
    WHERE kind = 'human_gate' AND closed_at IS NULL
  ) AS gates,
  (
    SELECT concat_ws('/', count(*), max(created_at))
    FROM verbworker.dead_letter
    WHERE state = 'open'
  ) AS letters;

-- name: arrivals
-- Entries by the minute they were asked for, over the last hour: of the statement, which alone bounds the index.
SELECT date_trunc('minute', created_at) AS minute, count(*) AS entries
FROM verbworker.runbook_entry
WHERE tenant_id = $1 AND created_at > statement_timestamp() - interval '1 hour'
GROUP BY 1
ORDER BY 1;

-- name: frames
-- The frames that are not archived yet, by state.
SELECT frame.state::text AS state, count(*) AS frames
FROM verbworker.job_frame AS frame
WHERE $2::boolean OR EXISTS (
  SELECT 1
  FROM verbworker.workflow_instance AS instance
  WHERE instance.instance_uid = frame.instance_uid AND instance.tenant_id = $1
)
GROUP BY frame.state
ORDER BY frame.state;

-- name: oldest_waits
-- What is waited for, and since when at most.
SELECT kind, count(*) AS waits, min(opened_at) AS since
FROM verbworker.parked_token
WHERE tenant_id = $1 AND closed_at IS NULL
GROUP BY kind
ORDER BY since;

-- name: durations
-- How long steps took from their first delivery to their verdict, by verb: those of the last hour not archived yet.
SELECT
  frame.verb, count(*) AS frames,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM frame.popped_at - frame.pushed_at)) AS p50,
  percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM frame.popped_at - frame.pushed_at)) AS p95
FROM verbworker.job_frame AS frame
WHERE frame.state = 'completed' AND frame.popped_at > statement_timestamp() - interval '1 hour'
  AND ($2::boolean OR EXISTS (
    SELECT 1
    FROM verbworker.workflow_instance AS instance
    WHERE instance.instance_uid = frame.instance_uid AND instance.tenant_id = $1
  ))
GROUP BY frame.verb
ORDER BY frame.verb
LIMIT 100;
