-- name: page
-- The open tasks of a tenant that fit a view and its filters, from a place on: those that the person claimed come first, then
-- the chosen order. Of a person, $2 is the name, $3 the id of issuer and subject, $4 the roles, null where none are declared.
-- Sentences are read for the tasks of the page only, or where a text is searched.
SELECT
  task.token_id, task.entry_id, task.gate, task.reason, task.detail, task.claimed_by, task.claimed_by_id, task.claimed_at,
  task.opened_at, task.task_due, task.priority, entry.sentence, entry.verb, task.is_own, task.place
FROM (
  SELECT
    token_id, entry_id, gate, reason, detail, claimed_by, claimed_by_id, claimed_at, opened_at, task_due, priority, is_own,
    place
  FROM (
    SELECT
      token.token_id, token.entry_id, token.gate, token.reason, token.detail, token.claimed_by, token.claimed_by_id,
      token.claimed_at, token.opened_at, token.task_due, coalesce(token.priority, 50) AS priority, claim.is_own,
      CASE $10::text
        WHEN 'priority' THEN -coalesce(token.priority, 50)::float8
        WHEN 'oldest' THEN extract(epoch FROM token.opened_at)::float8
        WHEN 'newest' THEN -extract(epoch FROM token.opened_at)::float8
        ELSE coalesce(extract(epoch FROM token.task_due)::float8, 'Infinity')
      END AS place
    FROM verbworker.parked_token AS token
    CROSS JOIN LATERAL (
      SELECT coalesce(
        CASE
          WHEN $3::uuid IS NOT NULL AND token.claimed_by_id IS NOT NULL THEN token.claimed_by_id = $3
          ELSE token.claimed_by = $2::text
        END, false) AS is_own
    ) AS claim
    WHERE token.tenant_id = $1 AND token.kind = 'human_gate' AND token.closed_at IS NULL
      AND CASE $5::text
        WHEN 'claimed' THEN claim.is_own
        WHEN 'mine' THEN claim.is_own OR token.claimed_by IS NULL AND (
          $4::text[] IS NULL
          OR coalesce(token.detail -> 'audience', '[]') IN ('[]', '""', 'null')
          OR token.detail -> 'audience' ?| $4
        )
        ELSE true
      END
      AND ($6::text IS NULL OR token.gate = $6)
      AND ($7::text IS NULL OR token.gate ILIKE $7 OR token.reason ILIKE $7 OR token.claimed_by ILIKE $7
        -- No EXISTS: that would read the sentences of all cases, open or not.
        OR (SELECT named.sentence FROM verbworker.runbook_entry AS named WHERE named.entry_id = token.entry_id) ILIKE $7)
      AND ($8::timestamptz IS NULL OR token.opened_at >= $8)
      AND ($9::timestamptz IS NULL OR token.opened_at < $9)
  ) AS fitting
  WHERE $11::boolean IS NULL
    OR (NOT is_own, place, opened_at, token_id) > (NOT $11, $12::float8, $13::timestamptz, $14::uuid)
  ORDER BY NOT is_own, place, opened_at, token_id
  LIMIT $15
) AS task
LEFT JOIN verbworker.runbook_entry AS entry ON entry.entry_id = task.entry_id
ORDER BY NOT task.is_own, task.place, task.opened_at, task.token_id;

-- name: counts
-- How many open tasks each view of a person has, without filters; the conditions are those above.
SELECT
  count(*) FILTER (WHERE claim.is_own OR token.claimed_by IS NULL AND (
    $4::text[] IS NULL
    OR coalesce(token.detail -> 'audience', '[]') IN ('[]', '""', 'null')
    OR token.detail -> 'audience' ?| $4
  )) AS mine,
  count(*) FILTER (WHERE claim.is_own) AS claimed,
  count(*) AS "all"
FROM verbworker.parked_token AS token
CROSS JOIN LATERAL (
  SELECT coalesce(
    CASE
      WHEN $3::uuid IS NOT NULL AND token.claimed_by_id IS NOT NULL THEN token.claimed_by_id = $3
      ELSE token.claimed_by = $2::text
    END, false) AS is_own
) AS claim
WHERE token.tenant_id = $1 AND token.kind = 'human_gate' AND token.closed_at IS NULL;

-- name: gates
-- The gates that open tasks of a tenant are at, to choose from.
SELECT DISTINCT gate
FROM verbworker.parked_token
WHERE tenant_id = $1 AND kind = 'human_gate' AND closed_at IS NULL AND gate IS NOT NULL
ORDER BY gate
LIMIT 200;
