-- name: list
-- The gates of a tenant from a key on, those that wait longest first: the open ones, or all of them with their results.
SELECT
  token.token_id, token.tenant_id, token.entry_id, token.instance_uid, token.engine_id, token.job_key,
  token.user_task_key, token.engine_assignee, token.assign_trouble AS claim_trouble, token.instance_key,
  token.element_instance_key, token.gate, token.reason, token.detail, token.claimed_by, token.claimed_by_id,
  token.claimed_at,
  token.opened_at, token.seen_at, token.closed_at, token.closed_as, entry.sentence, entry.verb,
  decision.decision, decision.reason AS why, decision.decided_by, decision.decided_at, decision.answer,
  decision.last_error AS trouble, decision.inputs
FROM verbworker.parked_token AS token
LEFT JOIN verbworker.runbook_entry AS entry ON entry.entry_id = token.entry_id
LEFT JOIN verbworker.gate_decision AS decision ON decision.token_id = token.token_id
WHERE token.kind = 'human_gate'
  AND token.tenant_id = $1
  AND ($2::text IS NULL OR token.gate = $2)
  AND ($3::uuid IS NULL OR token.entry_id = $3)
  AND ($4::boolean OR token.closed_at IS NULL)
  -- Repeated for the index, which has no ids.
  AND token.opened_at >= coalesce($6::timestamptz, '-infinity')
  AND ($6 IS NULL OR (token.opened_at, token.token_id) > ($6, $7::uuid))
ORDER BY token.opened_at, token.token_id
LIMIT $5;

-- name: get
-- One gate of a tenant, open or closed.
SELECT
  token.token_id, token.tenant_id, token.entry_id, token.instance_uid, token.engine_id, token.job_key,
  token.user_task_key, token.engine_assignee, token.assign_trouble AS claim_trouble, token.instance_key,
  token.element_instance_key, token.gate, token.reason, token.detail, token.claimed_by, token.claimed_by_id,
  token.claimed_at,
  token.opened_at, token.seen_at, token.closed_at, token.closed_as, entry.sentence, entry.verb,
  decision.decision, decision.reason AS why, decision.decided_by, decision.decided_at, decision.answer,
  decision.last_error AS trouble, decision.inputs
FROM verbworker.parked_token AS token
LEFT JOIN verbworker.runbook_entry AS entry ON entry.entry_id = token.entry_id
LEFT JOIN verbworker.gate_decision AS decision ON decision.token_id = token.token_id
WHERE token.kind = 'human_gate' AND token.token_id = $1 AND ($2::text IS NULL OR token.tenant_id = $2);

-- name: hold
-- Lock the gate until the caller's transaction ends: no other transaction may close or claim it.
SELECT token_id
FROM verbworker.parked_token
WHERE token_id = $1
FOR UPDATE;

-- name: hold_task
-- Lock the gate of a native user task, by the keys that each of its listener jobs has.
SELECT token_id
FROM verbworker.parked_token
WHERE engine_id = $1 AND element_instance_key = $2 AND kind = 'human_gate'
FOR UPDATE;

-- name: name_task
-- The engine's key of the task behind a gate. A task made anew has another key, and no assignee yet.
UPDATE verbworker.parked_token
SET
  user_task_key = $2,
  engine_assignee = CASE WHEN user_task_key IS DISTINCT FROM $2 THEN NULL ELSE engine_assignee END
WHERE token_id = $1;

-- name: tell_anew
-- The task that a decision completed is there again: the engine lost the completion, and gets the decision once more.
UPDATE verbworker.gate_decision
SET acked_at = NULL, answer = NULL, last_error = NULL, attempts = attempts + 1, next_at = clock_timestamp()
WHERE token_id = $1;

-- name: take_in
-- The listener job that brought a decision from a task list: when it is delivered again, the decision is its own.
UPDATE verbworker.parked_token
SET job_key = $2
WHERE token_id = $1;

-- name: assign
-- The assignee that the engine has.
UPDATE verbworker.parked_token
SET engine_assignee = $2
WHERE token_id = $1;

-- name: claim_unassigned
-- Open gates whose task has another assignee in the engine than the person who claimed it here, taken so that no other
-- relay sends a claim or a release of the same gate at the same time.
UPDATE verbworker.parked_token AS token
SET assign_after = clock_timestamp() + $3::interval
FROM (
  SELECT waiting.token_id
  FROM verbworker.parked_token AS waiting
  WHERE waiting.engine_id = $1 AND waiting.user_task_key IS NOT NULL AND waiting.closed_at IS NULL
    AND waiting.claimed_by IS DISTINCT FROM waiting.engine_assignee
    AND (waiting.assign_after IS NULL OR waiting.assign_after <= clock_timestamp())
  ORDER BY waiting.claimed_at
  LIMIT $2
  FOR UPDATE SKIP LOCKED
) AS due
WHERE token.token_id = due.token_id
RETURNING token.token_id, token.user_task_key, token.claimed_by, token.engine_assignee, token.instance_key;

-- name: assigned
-- The engine has the claim or the release of a task. One of a task that was made anew since says nothing.
UPDATE verbworker.parked_token
SET engine_assignee = $2, assign_after = NULL, assign_trouble = NULL
WHERE token_id = $1 AND user_task_key = $3;

-- name: postpone_assignment
-- The engine does not have the claim yet; when to send it again, and why. A newer claim has its own answer.
UPDATE verbworker.parked_token
SET
  assign_after = clock_timestamp() + $3::interval,
  assign_trouble = CASE WHEN claimed_by IS NOT DISTINCT FROM $2 THEN $4 ELSE assign_trouble END
WHERE token_id = $1;

-- name: refuse_assignment
-- The engine refused the claim, which was released here.
UPDATE verbworker.parked_token
SET assign_after = NULL, assign_trouble = $2
WHERE token_id = $1;

-- name: claim
-- A person claims the gate.
UPDATE verbworker.parked_token
SET claimed_by = $2, claimed_by_id = $3, claimed_at = clock_timestamp(), assign_trouble = NULL
WHERE token_id = $1
RETURNING claimed_at;

-- name: release
-- Release the gate.
UPDATE verbworker.parked_token
SET claimed_by = NULL, claimed_by_id = NULL, claimed_at = NULL, assign_trouble = NULL
WHERE token_id = $1;

-- name: decide
-- Store the only decision of a gate; no row if it has one. The attempt to send it to the engine is counted beforehand.
INSERT INTO verbworker.gate_decision (
  token_id, tenant_id, entry_id, instance_uid, gate, decision, reason, decided_by, attempts, next_at, decided_by_id,
  inputs
)
SELECT
  token_id, tenant_id, entry_id, instance_uid, gate, $2, $3, $4, $5, clock_timestamp() + $6::interval, $7,
  $8::jsonb
FROM verbworker.parked_token
WHERE token_id = $1
ON CONFLICT (token_id) DO NOTHING
RETURNING decided_at;

-- name: hold_entry
-- Who asked for a case. Locks its entry: of two decisions at the same time, the second sees the first.
SELECT asked_by, asked_by_id
FROM verbworker.runbook_entry
WHERE entry_id = $1
FOR NO KEY UPDATE;

-- name: deciders
-- Who decided where another person must decide than here: at the gates that this one names, and at those that name it.
SELECT decision.gate, decision.decided_by AS by, decision.decided_by_id AS by_id
FROM verbworker.gate_decision AS decision
JOIN verbworker.parked_token AS token ON token.token_id = decision.token_id
WHERE decision.instance_uid = $1
  AND (decision.gate = ANY ($2::text[]) OR token.detail -> 'distinct_from' ? $3)
ORDER BY decision.decided_at;

-- name: involved
-- Who asked for the cases of gates, and who decided where another person must decide, as the two above say; no lock.
SELECT
  token.token_id, entry.asked_by, entry.asked_by_id, earlier.gate, earlier.decided_by AS by, earlier.decided_by_id AS by_id
FROM verbworker.parked_token AS token
JOIN verbworker.runbook_entry AS entry ON entry.entry_id = token.entry_id AND entry.tenant_id = token.tenant_id
LEFT JOIN LATERAL (
  SELECT decision.gate, decision.decided_by, decision.decided_by_id, decision.decided_at
  FROM verbworker.gate_decision AS decision
  JOIN verbworker.parked_token AS other ON other.token_id = decision.token_id
  WHERE decision.instance_uid = token.instance_uid
    AND (token.detail -> 'distinct_from' ? decision.gate OR other.detail -> 'distinct_from' ? token.gate)
) AS earlier ON TRUE
WHERE token.tenant_id = $1 AND token.token_id = ANY ($2::uuid[])
ORDER BY token.token_id, earlier.decided_at;

-- name: close
-- The gate is closed; nothing comes back when it was closed already.
UPDATE verbworker.parked_token
SET closed_at = clock_timestamp(), closed_as = $2
WHERE token_id = $1 AND closed_at IS NULL
RETURNING token_id;

-- name: reopen
-- Reopen a gate that was closed because its task was gone: the task is back, and there is no decision.
UPDATE verbworker.parked_token
SET closed_at = NULL, closed_as = NULL
WHERE token_id = $1 AND closed_as IN ('gone', 'canceled')
RETURNING token_id;

-- name: earlier
-- The gate of a task that is new, under the key it had before: one that was decided first, else one that is open.
SELECT token.token_id, token.element_instance_key
FROM verbworker.parked_token AS token
WHERE token.token_id IN (
    SELECT decision.token_id
    FROM verbworker.gate_decision AS decision
    WHERE decision.instance_uid = $1
    UNION ALL
    SELECT standing.token_id
    FROM verbworker.parked_token AS standing
    WHERE standing.entry_id = $2 AND standing.closed_at IS NULL
  )
  AND token.kind = 'human_gate' AND token.instance_uid = $1 AND token.engine_id = $3 AND token.element_id = $4
  AND token.input_hash = $5
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.parked_token AS known
    WHERE known.engine_id = $3 AND known.element_instance_key = $6 AND known.kind = 'human_gate'
      AND known.instance_uid = $1
  )
ORDER BY token.closed_at NULLS LAST, token.opened_at
LIMIT 1;

-- name: move
-- The task of a gate got another key.
UPDATE verbworker.parked_token
SET element_instance_key = $3, job_key = $4, instance_key = $5, seen_at = clock_timestamp()
WHERE token_id = $1 AND element_instance_key = $2
RETURNING token_id;

-- name: tell
-- Count one more attempt to send a decision to the engine.
UPDATE verbworker.gate_decision
SET attempts = attempts + 1, next_at = clock_timestamp() + $2::interval
WHERE token_id = $1
RETURNING attempts;

-- name: claim_due
-- Decisions the engine has not accepted yet, claimed so that no other relay sends them at the same time.
UPDATE verbworker.gate_decision AS decision
SET attempts = attempts + 1, next_at = clock_timestamp() + $3::interval
FROM (
  SELECT due.token_id, token.job_key, token.user_task_key
  FROM verbworker.gate_decision AS due
  JOIN verbworker.parked_token AS token ON token.token_id = due.token_id
  WHERE token.engine_id = $1 AND due.acked_at IS NULL AND due.next_at <= clock_timestamp()
  ORDER BY due.next_at
  LIMIT $2
  FOR UPDATE OF due SKIP LOCKED
) AS waiting
WHERE decision.token_id = waiting.token_id
RETURNING decision.token_id, waiting.job_key, decision.attempts, waiting.user_task_key;

-- name: postpone
-- The engine did not take it; when to try again, and why, if that is not part of the usual course.
UPDATE verbworker.gate_decision
SET next_at = clock_timestamp() + $2::interval, last_error = $3
WHERE token_id = $1 AND acked_at IS NULL;

-- name: answer
-- Record the engine's answer. After an earlier attempt, a missing task proves nothing: that attempt may have worked.
UPDATE verbworker.gate_decision
SET
  acked_at = clock_timestamp(), last_error = NULL,
  answer = CASE WHEN NOT $2::boolean THEN 'completed' WHEN attempts > 1 THEN 'unsure' ELSE 'gone' END
WHERE token_id = $1 AND (acked_at IS NULL OR (NOT $2::boolean AND answer <> 'completed'))
RETURNING answer, entry_id, gate, decision, decided_by;

-- name: unsent
-- The decisions of an entry that the engine does not have, and why.
SELECT gate, decision, decided_by AS by, decided_at AS at, last_error AS trouble
FROM verbworker.gate_decision
WHERE entry_id = $1 AND acked_at IS NULL
ORDER BY decided_at, token_id;

-- name: backlog
-- How many decisions the engine does not have, and for how long the oldest waits. A suspended case takes none, as wanted.
SELECT count(*) AS waiting, extract(epoch FROM clock_timestamp() - min(decision.decided_at))::float8 AS oldest
FROM verbworker.gate_decision AS decision
JOIN verbworker.parked_token AS token ON token.token_id = decision.token_id
WHERE token.engine_id = $1 AND decision.acked_at IS NULL AND NOT EXISTS (
  SELECT 1
  FROM verbworker.parked_token AS suspension
  WHERE suspension.entry_id = decision.entry_id AND suspension.kind = 'suspended' AND suspension.closed_at IS NULL
);

-- name: silent
-- Open gates whose task the engine has not delivered for longer than it should take.
SELECT token_id, entry_id, element_instance_key, job_key, gate
FROM verbworker.parked_token
WHERE engine_id = $1 AND kind = 'human_gate' AND closed_at IS NULL
  AND job_key IS NOT NULL AND seen_at < clock_timestamp() - $2::interval
ORDER BY seen_at
LIMIT $3;

-- name: seen
-- The engine still waits at this gate.
UPDATE verbworker.parked_token
SET seen_at = clock_timestamp()
WHERE token_id = $1;

-- name: heard
-- What people decided and what came from outside for one instance, in order. A decision that found its task gone had
-- no effect, and is left out.
SELECT
  'decision' AS kind, gate AS name, decision AS value, reason, decided_by AS by, decided_at AS at,
  NULL AS key, NULL::bytea AS payload, false AS is_opaque, decided_at AS heard_at, inputs
FROM verbworker.gate_decision
WHERE instance_uid = $1 AND $2::boolean AND answer IS DISTINCT FROM 'gone'
UNION ALL
SELECT 'message', message_name, message_id, NULL, NULL, received_at, correlation_key, payload, is_opaque, consumed_at, NULL
FROM verbworker.inbox_message
WHERE instance_uid = $1 AND $3::boolean AND state = 'consumed'
ORDER BY heard_at, value;
