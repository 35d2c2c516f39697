-- name: broken
-- The entries whose chain does not hold: an event was changed, dropped or slipped in. One entry, or all of a tenant.
-- An erased event is right if a later event names its hash and the hash of what is left of it.
WITH told AS (
  SELECT
    event.entry_id, event.seq, event.hash,
    row_number() OVER chain AS place,
    verbworker.event_hash(
      coalesce(lag(event.hash) OVER chain, verbworker.first_hash(entry.entry_id, entry.asked)), event.entry_id, event.seq,
      event.at, event.kind, event.once, event.detail, event.status, event.salt, event.digests
    ) AS due
  FROM verbworker.runbook_event AS event
  JOIN verbworker.runbook_entry AS entry USING (entry_id)
  WHERE entry.tenant_id = $1 AND ($2::uuid IS NULL OR entry.entry_id = $2)
  WINDOW chain AS (PARTITION BY event.entry_id ORDER BY event.seq)
),
wrong AS (
  SELECT told.entry_id, min(told.seq) AS seq
  FROM told
  WHERE told.seq <> told.place OR told.hash <> told.due AND NOT EXISTS (
    SELECT 1
    FROM verbworker.runbook_event AS erasure
    WHERE erasure.entry_id = told.entry_id AND erasure.seq > told.seq AND erasure.kind = 'Erased'
      AND erasure.detail -> 'events' -> told.seq::text
        = jsonb_build_array(encode(told.hash, 'hex'), encode(told.due, 'hex'))
  )
  GROUP BY told.entry_id
),
last AS (
  SELECT DISTINCT ON (entry_id) entry_id, seq, hash FROM told ORDER BY entry_id, seq DESC
)
SELECT entry.entry_id, coalesce(wrong.seq, last.seq + 1, 1) AS seq
FROM verbworker.runbook_entry AS entry
LEFT JOIN wrong USING (entry_id)
LEFT JOIN last USING (entry_id)
WHERE entry.tenant_id = $1 AND ($2::uuid IS NULL OR entry.entry_id = $2)
  AND (
    wrong.entry_id IS NOT NULL
    OR entry.last_seq <> coalesce(last.seq, 0)
    OR entry.last_hash <> coalesce(last.hash, verbworker.first_hash(entry.entry_id, entry.asked))
  )
ORDER BY entry.created_at, entry.entry_id;

-- name: count_events
-- How much a verification looked at, how many entries are older than digests of what was asked, and how many were erased.
SELECT
  count(DISTINCT entry.entry_id) AS entries,
  count(event.seq) AS events,
  count(DISTINCT entry.entry_id) FILTER (WHERE entry.asked IS NULL) AS older,
  count(DISTINCT entry.entry_id) FILTER (WHERE event.kind = 'Erased') AS erased
FROM verbworker.runbook_entry AS entry
LEFT JOIN verbworker.runbook_event AS event USING (entry_id)
WHERE entry.tenant_id = $1 AND ($2::uuid IS NULL OR entry.entry_id = $2);

-- name: forged
-- Entries whose row is not what its chain says: what was asked, how it ended, which version of a process runs it. What was
-- erased must be as an erasure leaves it. Of an entry from before digests, only what its events say can be compared.
SELECT entry.entry_id, found.place, found.seq
FROM verbworker.runbook_entry AS entry
LEFT JOIN LATERAL (
  SELECT event.seq, event.status
  FROM verbworker.runbook_event AS event
  WHERE event.entry_id = entry.entry_id
  ORDER BY event.seq DESC
  LIMIT 1
) AS latest ON true
LEFT JOIN LATERAL (
  SELECT event.seq, event.at, event.salt, event.digests
  FROM verbworker.runbook_event AS event
  WHERE event.entry_id = entry.entry_id AND event.status NOT IN ('executing', 'parked')
  ORDER BY event.seq
  LIMIT 1
) AS final ON true
LEFT JOIN LATERAL (
  SELECT event.seq, event.detail
  FROM verbworker.runbook_event AS event
  WHERE event.entry_id = entry.entry_id AND event.once = 'started' AND event.kind = 'DurableTaskStarted'
) AS started ON true
CROSS JOIN LATERAL (
  SELECT part.key AS place, 0::bigint AS seq
  FROM jsonb_each_text(verbworker.digest_asked(entry)) AS part
  WHERE entry.asked IS NOT NULL AND CASE
    WHEN entry.salt IS NULL AND part.key NOT IN ('verb', 'asked_by')
    THEN NOT CASE part.key
      WHEN 'sentence' THEN entry.sentence = entry.verb || ' (erased)'
      WHEN 'invocation' THEN entry.invocation = '(' || entry.verb || ')'
      WHEN 'args' THEN entry.args = '{}'
      WHEN 'origin' THEN entry.provenance = '{}' AND entry.traceparent IS NULL
      ELSE coalesce(entry.request_key, 'erased:') LIKE 'erased:%' AND entry.request_hash = ''
    END OR NOT EXISTS (
      SELECT 1 FROM verbworker.runbook_event AS event WHERE event.entry_id = entry.entry_id AND event.kind = 'Erased')
    ELSE part.value IS DISTINCT FROM entry.asked ->> part.key
  END
  UNION ALL
  SELECT 'status', coalesce(latest.seq, 0) WHERE entry.status <> coalesce(latest.status, 'executing')
  UNION ALL
  SELECT 'ended_at', coalesce(final.seq, latest.seq, 0) WHERE entry.ended_at IS DISTINCT FROM final.at
  UNION ALL
  SELECT 'outcome', coalesce(final.seq, latest.seq, 0)
  WHERE CASE
    WHEN final.seq IS NULL THEN entry.outcome IS NOT NULL
    WHEN final.digests IS NULL THEN false
    WHEN final.salt IS NULL THEN coalesce(entry.outcome, '{}') <> '{}'
    ELSE verbworker.digest_bytes(final.salt, entry.outcome) IS DISTINCT FROM final.digests ->> 'outcome'
  END
  UNION ALL
  SELECT 'process_version', coalesce(started.seq, 0)
  WHERE (entry.process_version::text, entry.definition_key::text)
    IS DISTINCT FROM (started.detail ->> 'version', started.detail ->> 'definition_key')
) AS found
WHERE entry.tenant_id = $1 AND ($2::uuid IS NULL OR entry.entry_id = $2)
ORDER BY entry.created_at, entry.entry_id, found.place;

-- name: forged_decisions
-- Decisions that are not what the chain says: a row that differs from its event, one without an event, an event whose row
-- is gone.
WITH decided AS (
  SELECT event.entry_id, event.seq, event.detail, event.digests, event.detail ->> 'token_id' AS token_id
  FROM verbworker.runbook_event AS event
  JOIN verbworker.runbook_entry AS entry USING (entry_id)
  WHERE entry.tenant_id = $1 AND ($2::uuid IS NULL OR entry.entry_id = $2) AND event.kind = 'GateDecided'
),
made AS (
  SELECT stored.token_id::text AS token_id, stored.entry_id, stored.gate, stored.decision, stored.reason, stored.inputs,
    stored.decided_by, stored.decided_by_id::text AS decided_by_id,
    verbworker.digest_decision(stored, NULL) ->> 'decision' AS digest
  FROM verbworker.gate_decision AS stored
  JOIN verbworker.runbook_entry AS entry USING (entry_id)
  WHERE entry.tenant_id = $1 AND ($2::uuid IS NULL OR entry.entry_id = $2)
)
SELECT entry_id, coalesce(made.gate, decided.detail ->> 'gate', '') AS gate, coalesce(decided.seq, 0) AS seq,
  CASE
    WHEN made.token_id IS NULL THEN 'missing'
    WHEN decided.token_id IS NULL THEN 'without event'
    WHEN made.decision IS DISTINCT FROM decided.detail ->> 'decision' THEN 'decision'
    WHEN (made.decided_by, made.decided_by_id) IS DISTINCT FROM (decided.detail ->> 'by', decided.detail ->> 'by_id')
    THEN 'decided_by'
    WHEN made.reason <> coalesce(decided.detail ->> 'reason', '') THEN 'reason'
    WHEN made.inputs <> coalesce(decided.detail -> 'inputs', '{}') THEN 'inputs'
    ELSE 'gate or decided_at'
  END AS place
FROM made
FULL JOIN decided USING (entry_id, token_id)
WHERE made.token_id IS NULL AND decided.token_id IS NOT NULL
  OR made.token_id IS NOT NULL AND (
    decided.token_id IS NULL AND NOT EXISTS (
      -- An erasure from before these digests took the token's id from its event.
      SELECT 1 FROM decided AS bare WHERE bare.entry_id = made.entry_id AND bare.token_id IS NULL)
    OR made.decision IS DISTINCT FROM decided.detail ->> 'decision'
    OR (made.decided_by, made.decided_by_id) IS DISTINCT FROM (decided.detail ->> 'by', decided.detail ->> 'by_id')
    OR made.reason <> coalesce(decided.detail ->> 'reason', '')
    OR made.inputs <> coalesce(decided.detail -> 'inputs', '{}')
    OR made.digest <> decided.digests ->> 'decision'
  )
ORDER BY entry_id, gate;

-- name: seals
-- The seals of a tenant after a number, in order.
SELECT tenant_id, number, at, lines, lines_hash, previous, hash, key_id, signature
FROM verbworker.runbook_seal
WHERE tenant_id = $1 AND number > $2
ORDER BY number
LIMIT $3;

-- name: seal_lines
-- The lines of some seals, as they were digested.
SELECT number, entry_id, seq, hash, dropped, erased
FROM verbworker.runbook_seal_line
WHERE tenant_id = $1 AND number > $2 AND number <= $3
ORDER BY number, entry_id;

-- name: unlike_seals
-- Entries that are not as they were sealed: gone, shorter, with another chain, or there although retention dropped them.
WITH line AS (
  SELECT line.entry_id, line.number, line.seq, line.hash, line.dropped,
    max(line.number) FILTER (WHERE line.dropped) OVER (PARTITION BY line.entry_id) AS dropped_in
  FROM verbworker.runbook_seal_line AS line
  WHERE line.tenant_id = $1 AND ($2::uuid IS NULL OR line.entry_id = $2)
)
SELECT DISTINCT ON (line.entry_id) line.entry_id, line.number, line.seq,
  CASE
    WHEN line.dropped THEN 'dropped'
    WHEN entry.entry_id IS NULL THEN 'deleted'
    WHEN line.seq > entry.last_seq THEN 'truncated'
    ELSE 'changed'
  END AS place
FROM line
LEFT JOIN verbworker.runbook_entry AS entry ON entry.entry_id = line.entry_id AND entry.tenant_id = $1
LEFT JOIN verbworker.runbook_event AS event ON event.entry_id = entry.entry_id AND event.seq = line.seq
WHERE CASE
  WHEN line.dropped THEN entry.entry_id IS NOT NULL
  WHEN line.dropped_in IS NOT NULL THEN false
  ELSE entry.entry_id IS NULL
    OR line.hash IS DISTINCT FROM CASE WHEN line.seq = 0 THEN verbworker.first_hash(entry.entry_id, entry.asked) ELSE event.hash END
END
ORDER BY line.entry_id, line.number DESC;

-- name: forged_erasures
-- Erasures that no seal records: whoever changed these entries could not sign it.
SELECT event.entry_id, event.seq
FROM verbworker.runbook_event AS event
JOIN verbworker.runbook_entry AS entry USING (entry_id)
WHERE entry.tenant_id = $1 AND ($2::uuid IS NULL OR entry.entry_id = $2) AND event.kind = 'Erased'
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.runbook_seal_line AS line
    WHERE line.entry_id = event.entry_id AND line.tenant_id = $1 AND line.erased
      AND (line.seq, line.hash) = (event.seq, event.hash)
  )
ORDER BY event.entry_id, event.seq;

-- name: unsealed
-- Entries of which something is not sealed yet, the longest first, and how many there are.
SELECT entry.entry_id, coalesce(sealed.seq, -1) AS sealed_seq, entry.last_seq, entry.updated_at,
  count(*) OVER () AS number
FROM verbworker.runbook_entry AS entry
LEFT JOIN LATERAL (
  SELECT line.seq
  FROM verbworker.runbook_seal_line AS line
  WHERE line.entry_id = entry.entry_id
  ORDER BY line.number DESC
  LIMIT 1
) AS sealed ON true
WHERE entry.tenant_id = $1 AND ($2::uuid IS NULL OR entry.entry_id = $2) AND entry.last_seq > coalesce(sealed.seq, -1)
ORDER BY entry.updated_at, entry.entry_id
LIMIT 100;

-- name: dropped
-- How many entries retention dropped.
SELECT count(*) AS dropped
FROM verbworker.runbook_seal_line
WHERE tenant_id = $1 AND dropped AND ($2::uuid IS NULL OR entry_id = $2);

-- name: stray_lines
-- Lines of seals after the last one: those seals were there.
SELECT max(number) AS number
FROM verbworker.runbook_seal_line
WHERE tenant_id = $1 AND number > $2;
