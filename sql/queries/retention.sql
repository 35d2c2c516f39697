-- name: count
-- How many rows of one kind are past their retention period, and since when the oldest is retired.
SELECT due, oldest
FROM verbworker.count_retired($1, statement_timestamp() - $2::interval, $3);

-- name: count_archive
-- The same of archived frames, which go by whole months.
SELECT due, oldest
FROM verbworker.count_retired('archived_frame', date_trunc('month', statement_timestamp() - $1::interval, 'UTC'), $2);

-- name: drop
-- Drop rows of one kind.
SELECT verbworker.drop_retired($1, statement_timestamp() - $2::interval, $3) AS dropped;

-- name: drop_archive
-- Drop a month of the archive, or the frames of ended cases in one that an open case still needs.
SELECT verbworker.drop_archived_frames(statement_timestamp() - $1::interval, $2) AS dropped;

-- name: drop_payloads
-- Drop what ended instances kept for deliveries of their jobs.
SELECT verbworker.drop_payloads(statement_timestamp() - $1::interval, $2) AS dropped;

-- name: hold_entries
-- Entries to be exported and dropped, locked so that they get no more events and no other retention takes them.
SELECT entry.entry_id
FROM verbworker.runbook_entry AS entry
JOIN verbworker.retired_runbook_entry AS retired ON retired.entry_id = entry.entry_id
WHERE retired.since < statement_timestamp() - $1::interval AND entry.entry_id <> ALL ($3::uuid[])
ORDER BY retired.since
LIMIT $2
FOR UPDATE OF entry SKIP LOCKED;

-- name: export_entries
-- All that is known of some entries, a line each. An event's detail is text as Postgres prints it: its hash is of that.
SELECT
  entry.entry_id, entry.tenant_id, entry.last_seq, entry.last_hash,
  json_build_object(
    'format', 'verbworker.runbook/2',
    'entry', to_json(entry),
    'provenance', entry.provenance::text,
    'events', (
      SELECT coalesce(json_agg(json_build_object(
        'seq', event.seq, 'at', event.at, 'at_us', (extract(epoch FROM event.at) * 1000000)::bigint,
        'kind', event.kind, 'once', event.once, 'status', event.status, 'detail', event.detail::text,
        'salt', event.salt, 'digests', event.digests::text, 'hash', encode(event.hash, 'hex')) ORDER BY event.seq), '[]')
      FROM verbworker.runbook_event AS event
      WHERE event.entry_id = entry.entry_id
    ),
    'instances', (
      SELECT coalesce(json_agg(instance), '[]')
      FROM verbworker.workflow_instance AS instance
      WHERE instance.entry_id = entry.entry_id
    ),
    'payloads', (
      SELECT coalesce(json_agg(head), '[]')
      FROM verbworker.payload_head AS head
      JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = head.instance_uid
      WHERE instance.entry_id = entry.entry_id
    ),
    'waits', (
      SELECT coalesce(json_agg(token ORDER BY token.opened_at), '[]')
      FROM verbworker.parked_token AS token
      WHERE token.entry_id = entry.entry_id
    ),
    'decisions', (
      SELECT coalesce(json_agg(made ORDER BY made.decided_at), '[]')
      FROM verbworker.gate_decision AS made
      JOIN verbworker.parked_token AS token ON token.token_id = made.token_id
      WHERE token.entry_id = entry.entry_id
    ),
    'compensations', (
      SELECT coalesce(json_agg(record ORDER BY record.step_seq), '[]')
      FROM verbworker.compensation_record AS record
      JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = record.instance_uid
      WHERE instance.entry_id = entry.entry_id
    ),
    'dispatches', (
      SELECT coalesce(json_agg(dispatch), '[]')
      FROM verbworker.dispatch AS dispatch
      WHERE dispatch.entry_id = entry.entry_id
    )
  )::text AS line
FROM verbworker.runbook_entry AS entry
WHERE entry.entry_id = ANY ($1::uuid[])
ORDER BY entry.ended_at, entry.entry_id;

-- name: drop_entries
-- Drop entries that were read with these heads; the caller commits when their export is on disk.
SELECT entry_id
FROM verbworker.drop_entries($1, $2, statement_timestamp() - $3::interval) AS entry_id;

-- name: sizes
-- About how many rows some tables have, months of an archive together, and how many bytes on disk.
SELECT
  named.name,
  greatest(sum(part.reltuples), 0)::bigint AS rows,
  sum(pg_total_relation_size(part.oid))::bigint AS bytes
FROM unnest($1::text[]) AS named (name)
JOIN pg_class AS part
  ON part.oid = named.name::regclass OR part.oid IN (SELECT relid FROM pg_partition_tree(named.name::regclass))
GROUP BY named.name;

-- name: kept_entries
-- How many entries have ended, how many of them too lately, and how many are old enough and may still be needed: their
-- instance or a job of theirs has not ended. No entry goes before a day is over; null means that none ever goes.
SELECT
  count(*) AS ended,
  count(*) FILTER (WHERE ended_at >= statement_timestamp() - greatest($1::interval, interval '1 day')) AS young,
  count(*) FILTER (
    WHERE ended_at < statement_timestamp() - greatest($1::interval, interval '1 day')
      AND NOT EXISTS (SELECT 1 FROM verbworker.retired_runbook_entry AS retired WHERE retired.entry_id = one.entry_id)
  ) AS needed
FROM (SELECT entry_id, ended_at FROM verbworker.runbook_entry WHERE ended_at IS NOT NULL LIMIT $2) AS one;
