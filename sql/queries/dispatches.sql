-- name: add
-- A start request, in the same commit as the entry and the instance it is for.
INSERT INTO verbworker.dispatch (instance_uid, entry_id, engine_id, process_id, variables, tenant_id)
VALUES ($1, $2, $3, $4, $5, $6);

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
RETURNING instance_uid, entry_id, process_id, variables, attempts, tenant_id;

-- name: claim_in_turn
-- The same while more is due than one claim takes, so that no tenant waits for all that another has.
-- Tenants are served in turn, each with an equal share of the batch, beginning behind the one that was served last ($5):
-- `turn` walks from tenant to tenant by the index, once round or 64 tenants far, and never through what a tenant has
-- waiting. What is left of the batch goes to the oldest. `served` is where the next batch begins, and `has_several` whether
-- more than one tenant has, or may have, something due.
WITH RECURSIVE turn AS (
  SELECT $5::text AS tenant_id, 0 AS place, false AS is_second_half
  UNION ALL
  SELECT next.tenant_id, turn.place + 1, next.is_second_half
  FROM turn
  CROSS JOIN LATERAL (
    SELECT ahead.tenant_id, turn.is_second_half
    FROM (
      SELECT dispatch.tenant_id
      FROM verbworker.dispatch
      WHERE dispatch.engine_id = $1 AND dispatch.done_at IS NULL AND dispatch.tenant_id > turn.tenant_id
      ORDER BY dispatch.tenant_id
      LIMIT 1
    ) AS ahead
    UNION ALL
    SELECT first.tenant_id, true
    FROM (
      SELECT dispatch.tenant_id
      FROM verbworker.dispatch
      WHERE dispatch.engine_id = $1 AND dispatch.done_at IS NULL AND NOT turn.is_second_half
      ORDER BY dispatch.tenant_id
      LIMIT 1
    ) AS first
    LIMIT 1
  ) AS next
  WHERE turn.place < 64 AND NOT (next.is_second_half AND next.tenant_id > $5)
),
tenant AS MATERIALIZED (
  SELECT turn.tenant_id, turn.place, count(*) OVER () AS number
  FROM turn
  CROSS JOIN LATERAL (
    SELECT due.next_at
    FROM verbworker.dispatch AS due
    WHERE due.engine_id = $1 AND due.tenant_id = turn.tenant_id AND due.done_at IS NULL
      AND due.next_at <= statement_timestamp()
    ORDER BY due.next_at
    LIMIT 1
  ) AS oldest
  WHERE turn.place > 0
),
found AS MATERIALIZED (
  SELECT tenant.place, due.instance_uid, due.next_at
  FROM tenant
  CROSS JOIN LATERAL (
    SELECT due.instance_uid, due.next_at
    FROM verbworker.dispatch AS due
    WHERE due.engine_id = $1 AND due.tenant_id = tenant.tenant_id AND due.done_at IS NULL
      AND due.next_at <= statement_timestamp()
    ORDER BY due.next_at
    LIMIT ($3 + tenant.number - 1) / tenant.number
    FOR UPDATE SKIP LOCKED
  ) AS due
),
shared AS MATERIALIZED (
  SELECT ranked.instance_uid, ranked.place
  FROM (
    SELECT instance_uid, place, row_number() OVER (PARTITION BY place ORDER BY next_at) AS rank
    FROM found
  ) AS ranked
  ORDER BY ranked.rank, ranked.place
  LIMIT $3
),
rest AS MATERIALIZED (
  SELECT due.instance_uid
  FROM verbworker.dispatch AS due
  WHERE due.engine_id = $1 AND due.done_at IS NULL AND due.next_at <= statement_timestamp()
    AND due.instance_uid <> ALL (ARRAY(SELECT instance_uid FROM found))
  ORDER BY due.next_at
  LIMIT $3 - (SELECT count(*) FROM shared)
  FOR UPDATE SKIP LOCKED
)
UPDATE verbworker.dispatch AS dispatch
SET attempts = attempts + 1, owner = $2, next_at = clock_timestamp() + $4::interval
WHERE dispatch.instance_uid = ANY (ARRAY(SELECT instance_uid FROM shared UNION ALL SELECT instance_uid FROM rest))
RETURNING instance_uid, entry_id, process_id, variables, attempts, tenant_id, (
  SELECT turn.tenant_id
  FROM turn
  WHERE turn.place = CASE
    WHEN (SELECT count(*) FROM tenant) > $3 THEN (SELECT max(shared.place) FROM shared)
    ELSE (SELECT max(turn.place) FROM turn)
  END
) AS served, (SELECT count(*) > 1 FROM tenant) OR (SELECT max(turn.place) = 64 FROM turn) AS has_several;

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
