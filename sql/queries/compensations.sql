-- name: plan
-- One record for each completed step that can be undone and has no record yet. Repeating it adds only newer steps.
-- The engine instance does not matter: a re-created one has another key, and a duplicate completes no step.
INSERT INTO verbworker.compensation_record (
  tenant_id, entry_id, instance_uid, step_seq, verb, undo, element_id, element_instance_key, job_key
)
SELECT
  instance.tenant_id, instance.entry_id, instance.instance_uid, event.seq, manifest.verb, manifest.undo, $3, $4, $2
FROM verbworker.workflow_instance AS instance
JOIN verbworker.runbook_event AS event ON event.entry_id = instance.entry_id
JOIN unnest($5::text[], $6::text[]) AS manifest (verb, undo) ON manifest.verb = event.detail ->> 'verb'
WHERE instance.instance_uid = $1
  AND event.kind = 'StepCompleted'
  AND event.detail ->> 'outcome' = 'complete'
ORDER BY event.seq
ON CONFLICT (instance_uid, step_seq) DO NOTHING;

-- name: next
-- The latest step that is not undone yet.
SELECT record_id, verb, undo, element_id, element_instance_key, job_key, state
FROM verbworker.compensation_record
WHERE instance_uid = $1 AND state <> 'undone'
ORDER BY step_seq DESC
LIMIT 1;

-- name: adopt
-- The incident was reported to an earlier task, not to the current one: it must be reported to this one too.
UPDATE verbworker.job_frame
SET reported_at = NULL
WHERE engine_id = $1 AND job_key = $2 AND state = 'incident';

-- name: take
-- Assign a record to the job that now undoes it, unless it is undone already.
UPDATE verbworker.compensation_record
SET job_key = $2
WHERE record_id = $1 AND state <> 'undone'
RETURNING record_id;

-- name: is_undone
-- Whether a record is undone.
SELECT state = 'undone' AS undone
FROM verbworker.compensation_record
WHERE record_id = $1;

-- name: returned
-- What the undos of one job set, in the order in which they happened.
SELECT variables
FROM verbworker.compensation_record
WHERE instance_uid = $1 AND job_key = $2 AND state = 'undone'
ORDER BY ended_at, record_id;

-- name: job_of
-- The engine's job that waits for a record.
SELECT job_key
FROM verbworker.compensation_record
WHERE record_id = $1;
