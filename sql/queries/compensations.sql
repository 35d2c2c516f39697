-- name: plan
-- One record for each completed step that can be undone and has none yet. Asked again it adds only what was done since.
-- Whatever engine instance did the step: a re-created one has another key, and a duplicate completes none.
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
-- The youngest step that still stands.
SELECT record_id, verb, undo, element_id, element_instance_key, job_key, state
FROM verbworker.compensation_record
WHERE instance_uid = $1 AND state <> 'undone'
ORDER BY step_seq DESC
LIMIT 1;

-- name: adopt
-- The task that was told of this incident is not the one that walks now: to this one it has yet to be told.
UPDATE verbworker.job_frame
SET reported_at = NULL
WHERE engine_id = $1 AND job_key = $2 AND state = 'incident';

-- name: take
-- The job that walks a record from now on, unless it is undone by now.
UPDATE verbworker.compensation_record
SET job_key = $2
WHERE record_id = $1 AND state <> 'undone'
RETURNING record_id;

-- name: is_undone
-- What became of a delivery.
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
