-- name: lock
-- Seals are written one after the other: what a seal reads was committed before it, and nothing is dropped meanwhile.
SELECT pg_advisory_xact_lock(hashtext('verbworker.seal'));

-- name: try_lock
-- The same, unless it must be waited for: another process is sealing.
SELECT pg_try_advisory_xact_lock(hashtext('verbworker.seal')) AS locked;

-- name: require_write
-- Refused by a database that takes no writes, also when there is nothing to seal.
INSERT INTO verbworker.runbook_seal_line (tenant_id, number, entry_id, seq, hash, dropped)
SELECT '', 0, gen_random_uuid(), 0, '', false
WHERE false;

-- name: last
-- The last seal of a tenant, and the one that this process wrote last ($2), to see that it is still there.
(
  SELECT tenant_id, number, at, lines, lines_hash, previous, hash, key_id, signature
  FROM verbworker.runbook_seal
  WHERE tenant_id = $1
  ORDER BY number DESC
  LIMIT 1
)
UNION ALL
SELECT tenant_id, number, at, lines, lines_hash, previous, hash, key_id, signature
FROM verbworker.runbook_seal
WHERE tenant_id = $1 AND number = $2;

-- name: now
-- When a seal is written.
SELECT clock_timestamp() AS now;

-- name: tenants
-- The tenants that have a seal, each found by a look into the index.
WITH RECURSIVE known AS (
  (SELECT tenant_id FROM verbworker.runbook_seal ORDER BY tenant_id LIMIT 1)
  UNION ALL
  SELECT (
    SELECT seal.tenant_id FROM verbworker.runbook_seal AS seal WHERE seal.tenant_id > known.tenant_id
    ORDER BY seal.tenant_id LIMIT 1)
  FROM known
  WHERE known.tenant_id IS NOT NULL
)
SELECT tenant_id
FROM known
WHERE tenant_id IS NOT NULL;

-- name: horizon
-- Up to where events are sealed, and where a seal written now reaches: transactions before that have ended.
SELECT
  coalesce((SELECT horizon FROM verbworker.runbook_seal WHERE horizon IS NOT NULL ORDER BY at DESC LIMIT 1), 0) AS sealed,
  pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS reaches;

-- name: moved
-- Entries with events of transactions since the last seal that are not sealed as they are now. The lookup of the last line
-- leaves out what a long transaction makes us read again. Later transactions than there are come from a restored database.
SELECT entry.tenant_id, entry.entry_id, entry.last_seq AS seq, entry.last_hash AS hash
FROM (
  SELECT DISTINCT entry_id
  FROM verbworker.runbook_event
  WHERE tx >= $1 AND tx < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
) AS moved
JOIN verbworker.runbook_entry AS entry ON entry.entry_id = moved.entry_id
LEFT JOIN LATERAL (
  SELECT line.hash
  FROM verbworker.runbook_seal_line AS line
  WHERE line.entry_id = entry.entry_id
  ORDER BY line.number DESC
  LIMIT 1
) AS sealed ON true
WHERE sealed.hash IS DISTINCT FROM entry.last_hash
ORDER BY entry.tenant_id, entry.entry_id
LIMIT $2;

-- name: waiting
-- Since when an entry that moved since the last seal waits to be sealed.
SELECT min(entry.updated_at) AS since
FROM (
  SELECT DISTINCT entry_id
  FROM verbworker.runbook_event
  WHERE tx < pg_snapshot_xmax(pg_current_snapshot())::text::bigint AND tx >= coalesce(
    (SELECT horizon FROM verbworker.runbook_seal WHERE horizon IS NOT NULL ORDER BY at DESC LIMIT 1), 0)
) AS moved
JOIN verbworker.runbook_entry AS entry ON entry.entry_id = moved.entry_id
LEFT JOIN LATERAL (
  SELECT line.hash
  FROM verbworker.runbook_seal_line AS line
  WHERE line.entry_id = entry.entry_id
  ORDER BY line.number DESC
  LIMIT 1
) AS sealed ON true
WHERE sealed.hash IS DISTINCT FROM entry.last_hash;

-- name: page
-- Some entries by their ids, and whether each is sealed as it is now: finds those from before seals, those without an
-- event, and what a restored database has.
SELECT entry.tenant_id, entry.entry_id, entry.last_seq AS seq, entry.last_hash AS hash,
  sealed.hash IS NOT DISTINCT FROM entry.last_hash AS is_sealed
FROM verbworker.runbook_entry AS entry
LEFT JOIN LATERAL (
  SELECT line.hash
  FROM verbworker.runbook_seal_line AS line
  WHERE line.entry_id = entry.entry_id
  ORDER BY line.number DESC
  LIMIT 1
) AS sealed ON true
WHERE entry.entry_id > $1
ORDER BY entry.entry_id
LIMIT $2;

-- name: add
-- A seal with its lines.
WITH seal AS (
  INSERT INTO verbworker.runbook_seal (
    tenant_id, number, at, lines, lines_hash, previous, hash, key_id, signature, horizon
  )
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
)
INSERT INTO verbworker.runbook_seal_line (tenant_id, number, entry_id, seq, hash, dropped, erased)
SELECT $1, $2, line.entry_id, line.seq, line.hash, line.dropped, line.erased
FROM unnest($11::uuid[], $12::bigint[], $13::bytea[], $14::boolean[], $15::boolean[])
  AS line (entry_id, seq, hash, dropped, erased);

-- name: sealed
-- Where some entries were in each seal, for their export.
SELECT entry_id, seq, hash, dropped, erased
FROM verbworker.runbook_seal_line
WHERE entry_id = ANY ($1::uuid[]) AND NOT dropped
ORDER BY entry_id, number;
