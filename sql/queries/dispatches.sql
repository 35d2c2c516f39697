-- name: add
-- A start request, in the same commit as the entry and the instance it is for.
INSERT INTO verbworker.dispatch (instance_uid, entry_id, engine_id, process_id, variables)
VALUES ($1, $2, $3, $4, $5);

-- name: claim
-- The requests that are due, taken so that no other dispatcher asks at the same time. Asking is counted before it is done.
UPDATE verbworker.dispatch AS dispatch
SET attempts = attempts + 1, owner = $2, next_at = clock_timestamp() + $4::interval
WHERE dispatch.instance_uid IN (
  SELECT due.instance_uid
  FROM verbworker.dispatch AS due
  WHERE due.engine_id = $1 AND due.done_at IS NULL AND due.next_at <= clock_timestamp()
  ORDER BY due.next_at
  LIMIT $3
  FOR UPDATE SKIP LOCKED
)
RETURNING instance_uid, entry_id, process_id, variables, attempts;

-- name: postpone
-- The engine did not take it; when to ask again. A refusal that surely started nothing does not count as asked.
UPDATE verbworker.dispatch
SET next_at = clock_timestamp() + $3::interval, last_error = $4, attempts = attempts - $5::integer
WHERE instance_uid = $1 AND owner = $2 AND done_at IS NULL;

-- name: doubt
-- Whether the engine may have started an instance twice, because an answer was lost.
SELECT attempts > 1 AS doubtful
FROM verbworker.dispatch
WHERE instance_uid = $1;

-- name: withdraw
-- A request that the engine does not have yet is taken back.
UPDATE verbworker.dispatch
SET done_at = clock_timestamp(), variables = ''
WHERE instance_uid = $1 AND done_at IS NULL
RETURNING attempts;

-- name: trouble
-- Why an entry's request is still waiting.
SELECT attempts, last_error, next_at
FROM verbworker.dispatch
WHERE entry_id = $1 AND done_at IS NULL;

-- name: backlog
-- How many requests the engine has not taken, and for how long the oldest waits.
SELECT count(*) AS waiting, extract(epoch FROM clock_timestamp() - min(created_at))::float8 AS oldest
FROM verbworker.dispatch
WHERE engine_id = $1 AND done_at IS NULL;
