-- name: receive
-- Store a message before its sender gets the receipt. No row if the tenant used the id before.
INSERT INTO verbworker.inbox_message (
  tenant_id, message_id, message_name, correlation_key, body_hash, payload, entry_id, correlation_id, causation_id,
  traceparent, sent_by, engine_id, ttl, expires_at, owner, next_at, workflow_id, is_opaque
)
VALUES (
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, clock_timestamp() + $13::interval, $14,
  clock_timestamp() + $15::interval, $16, $17
)
ON CONFLICT (tenant_id, message_id) DO NOTHING
RETURNING message_id;

-- name: receive_within
-- The same for a tenant with quotas. `quota` names the one that is used up; then nothing is written. An id that the
-- tenant used before is no new message. Counted as starts are, by `open_within` of the runbook; the message that reaches
-- the quota of bytes still passes.
WITH used AS MATERIALIZED (
  SELECT CASE
    WHEN EXISTS (SELECT 1 FROM verbworker.inbox_message WHERE tenant_id = $1 AND message_id = $2) THEN NULL
    WHEN minute.requests >= $18::bigint THEN 'messages_per_minute'
    WHEN minute.bytes >= $19::bigint THEN 'message_bytes_per_minute'
    WHEN $20::bigint IS NOT NULL AND (
      SELECT count(*)
      FROM (SELECT 1 FROM verbworker.inbox_message WHERE tenant_id = $1 AND state = 'received' LIMIT $20) AS waiting
    ) >= $20 THEN 'waiting_messages'
  END AS quota
  FROM (
    SELECT sum(requests) AS requests, sum(bytes) AS bytes
    FROM verbworker.tenant_use
    WHERE tenant_id = $1 AND kind = 'messages' AND minute = date_trunc('minute', statement_timestamp())
  ) AS minute
),
made AS (
  INSERT INTO verbworker.inbox_message (
    tenant_id, message_id, message_name, correlation_key, body_hash, payload, entry_id, correlation_id, causation_id,
    traceparent, sent_by, engine_id, ttl, expires_at, owner, next_at, workflow_id, is_opaque
  )
  SELECT $1::text, $2::text, $3::text, $4::text, $5::bytea, $6::bytea, $7::uuid, $8::text, $9::text, $10::text, $11::text,
    $12::text, $13::interval, clock_timestamp() + $13, $14::uuid, clock_timestamp() + $15::interval, $16::text, $17::boolean
  FROM used
  WHERE used.quota IS NULL
  ON CONFLICT (tenant_id, message_id) DO NOTHING
  RETURNING message_id
),
counted AS (
  INSERT INTO verbworker.tenant_use AS minute (tenant_id, kind, minute, backend, requests, bytes)
  SELECT $1, 'messages', date_trunc('minute', statement_timestamp()), pg_backend_pid(), 1,
    coalesce(octet_length($6), 0)
  FROM made
  WHERE $18 IS NOT NULL OR $19 IS NOT NULL
  ON CONFLICT (tenant_id, kind, minute, backend) DO UPDATE SET
    requests = minute.requests + 1, bytes = minute.bytes + excluded.bytes
)
SELECT (SELECT made.message_id FROM made) AS message_id, used.quota,
  ceil(60 - extract(second FROM statement_timestamp()))::integer AS seconds
FROM used;

-- name: read
-- The message with this id.
SELECT body_hash, state, received_at
FROM verbworker.inbox_message
WHERE tenant_id = $1 AND message_id = $2;

-- name: claim
-- What is due, claimed so that no other messenger delivers it at the same time. Of one name and key only the one that may
-- be with the engine, or else the oldest: the engine hands messages out in the order it got them, and so do we.
-- A name that this process does not know, and a deployed process waits for, is left to the workers of that process until
-- its time is over: one database may serve several applications, and several versions of one.
UPDATE verbworker.inbox_message AS message
SET attempts = message.attempts + 1, owner = $2, next_at = clock_timestamp() + $4::interval
WHERE (message.tenant_id, message.message_id) IN (
  SELECT due.tenant_id, due.message_id
  FROM verbworker.inbox_message AS due
  -- The statement's own time, and not the clock's: only that bounds the index to what is due.
  WHERE due.engine_id = $1 AND due.state IN ('received', 'published') AND due.next_at <= statement_timestamp()
    AND (due.state = 'published' OR due.instance_uid IS NOT NULL OR NOT EXISTS (
      SELECT 1
      FROM verbworker.inbox_message AS earlier
      WHERE earlier.tenant_id = due.tenant_id AND earlier.message_name = due.message_name
        AND earlier.correlation_key = due.correlation_key AND earlier.state = 'received'
        AND (earlier.queued_at, earlier.message_id) < (due.queued_at, due.message_id)
    ) AND NOT EXISTS (
      SELECT 1
      FROM verbworker.inbox_message AS aimed
      WHERE aimed.tenant_id = due.tenant_id AND aimed.message_name = due.message_name
        AND aimed.correlation_key = due.correlation_key AND aimed.state = 'received' AND aimed.instance_uid IS NOT NULL
    ))
    AND (due.message_name = ANY ($5::text[]) OR due.state = 'published' OR due.expires_at <= statement_timestamp()
      OR NOT EXISTS (
        SELECT 1
        FROM verbworker.process_deployment AS deployment
        WHERE deployment.engine_id = $1
          AND jsonb_path_exists(deployment.waits, '$.*.message ? (@ == $name)', jsonb_build_object('name', due.message_name))
      ))
  ORDER BY due.next_at
  LIMIT $3
  FOR UPDATE SKIP LOCKED
)
RETURNING message.tenant_id, message.message_id, message.message_name, message.correlation_key, message.entry_id,
  message.state, message.instance_uid, message.ttl, message.generation, message.attempts, message.sent_by,
  message.traceparent, message.workflow_id, message.correlation_id, message.causation_id,
  message.expires_at <= clock_timestamp() AS is_over;

-- name: claim_in_turn
-- The same while more is due than one claim takes. Tenants are served in turn, as by `claim_in_turn` of dispatches,
-- beginning behind $6.
WITH RECURSIVE turn AS (
  SELECT $6::text AS tenant_id, 0 AS place, false AS is_second_half
  UNION ALL
  SELECT next.tenant_id, turn.place + 1, next.is_second_half
  FROM turn
  CROSS JOIN LATERAL (
    SELECT ahead.tenant_id, turn.is_second_half
    FROM (
      SELECT message.tenant_id
      FROM verbworker.inbox_message AS message
      WHERE message.engine_id = $1 AND message.state IN ('received', 'published')
        AND message.tenant_id > turn.tenant_id
      ORDER BY message.tenant_id
      LIMIT 1
    ) AS ahead
    UNION ALL
    SELECT first.tenant_id, true
    FROM (
      SELECT message.tenant_id
      FROM verbworker.inbox_message AS message
      WHERE message.engine_id = $1 AND message.state IN ('received', 'published') AND NOT turn.is_second_half
      ORDER BY message.tenant_id
      LIMIT 1
    ) AS first
    LIMIT 1
  ) AS next
  WHERE turn.place < 64 AND NOT (next.is_second_half AND next.tenant_id > $6)
),
tenant AS MATERIALIZED (
  SELECT turn.tenant_id, turn.place, count(*) OVER () AS number
  FROM turn
  CROSS JOIN LATERAL (
    SELECT due.next_at
    FROM verbworker.inbox_message AS due
    WHERE due.engine_id = $1 AND due.tenant_id = turn.tenant_id AND due.state IN ('received', 'published')
      -- The statement's own time, and not the clock's: only that bounds the index to what is due.
      AND due.next_at <= statement_timestamp()
    ORDER BY due.next_at
    LIMIT 1
  ) AS oldest
  WHERE turn.place > 0
),
found AS MATERIALIZED (
  SELECT tenant.place, due.tenant_id, due.message_id, due.next_at
  FROM tenant
  CROSS JOIN LATERAL (
    SELECT due.tenant_id, due.message_id, due.next_at
    FROM verbworker.inbox_message AS due
    WHERE due.engine_id = $1 AND due.tenant_id = tenant.tenant_id AND due.state IN ('received', 'published')
      AND due.next_at <= statement_timestamp()
      AND (due.state = 'published' OR due.instance_uid IS NOT NULL OR NOT EXISTS (
        SELECT 1
        FROM verbworker.inbox_message AS earlier
        WHERE earlier.tenant_id = due.tenant_id AND earlier.message_name = due.message_name
          AND earlier.correlation_key = due.correlation_key AND earlier.state = 'received'
          AND (earlier.queued_at, earlier.message_id) < (due.queued_at, due.message_id)
      ) AND NOT EXISTS (
        SELECT 1
        FROM verbworker.inbox_message AS aimed
        WHERE aimed.tenant_id = due.tenant_id AND aimed.message_name = due.message_name
          AND aimed.correlation_key = due.correlation_key AND aimed.state = 'received' AND aimed.instance_uid IS NOT NULL
      ))
      AND (due.message_name = ANY ($5::text[]) OR due.state = 'published' OR due.expires_at <= statement_timestamp()
        OR NOT EXISTS (
          SELECT 1
          FROM verbworker.process_deployment AS deployment
          WHERE deployment.engine_id = $1
            AND jsonb_path_exists(
              deployment.waits, '$.*.message ? (@ == $name)', jsonb_build_object('name', due.message_name)
            )
        ))
    ORDER BY due.next_at
    LIMIT ($3 + tenant.number - 1) / tenant.number
    FOR UPDATE SKIP LOCKED
  ) AS due
),
shared AS MATERIALIZED (
  SELECT ranked.tenant_id, ranked.message_id, ranked.place
  FROM (
    SELECT tenant_id, message_id, place, row_number() OVER (PARTITION BY place ORDER BY next_at) AS rank
    FROM found
  ) AS ranked
  ORDER BY ranked.rank, ranked.place
  LIMIT $3
),
rest AS MATERIALIZED (
  SELECT due.tenant_id, due.message_id
  FROM verbworker.inbox_message AS due
  WHERE due.engine_id = $1 AND due.state IN ('received', 'published') AND due.next_at <= statement_timestamp()
    AND NOT EXISTS (
      SELECT 1
      FROM found
      WHERE found.tenant_id = due.tenant_id AND found.message_id = due.message_id
    )
    AND (due.state = 'published' OR due.instance_uid IS NOT NULL OR NOT EXISTS (
      SELECT 1
      FROM verbworker.inbox_message AS earlier
      WHERE earlier.tenant_id = due.tenant_id AND earlier.message_name = due.message_name
        AND earlier.correlation_key = due.correlation_key AND earlier.state = 'received'
        AND (earlier.queued_at, earlier.message_id) < (due.queued_at, due.message_id)
    ) AND NOT EXISTS (
      SELECT 1
      FROM verbworker.inbox_message AS aimed
      WHERE aimed.tenant_id = due.tenant_id AND aimed.message_name = due.message_name
        AND aimed.correlation_key = due.correlation_key AND aimed.state = 'received' AND aimed.instance_uid IS NOT NULL
    ))
    AND (due.message_name = ANY ($5::text[]) OR due.state = 'published' OR due.expires_at <= statement_timestamp()
      OR NOT EXISTS (
        SELECT 1
        FROM verbworker.process_deployment AS deployment
        WHERE deployment.engine_id = $1
          AND jsonb_path_exists(
            deployment.waits, '$.*.message ? (@ == $name)', jsonb_build_object('name', due.message_name)
          )
      ))
  ORDER BY due.next_at
  LIMIT $3 - (SELECT count(*) FROM shared)
  FOR UPDATE SKIP LOCKED
)
UPDATE verbworker.inbox_message AS message
SET attempts = message.attempts + 1, owner = $2, next_at = clock_timestamp() + $4::interval
WHERE (message.tenant_id, message.message_id) IN (
  SELECT tenant_id, message_id
  FROM shared
  UNION ALL
  SELECT tenant_id, message_id
  FROM rest
)
RETURNING message.tenant_id, message.message_id, message.message_name, message.correlation_key, message.entry_id,
  message.state, message.instance_uid, message.ttl, message.generation, message.attempts, message.sent_by,
  message.traceparent, message.workflow_id, message.correlation_id, message.causation_id,
  message.expires_at <= clock_timestamp() AS is_over, (
    SELECT turn.tenant_id
    FROM turn
    WHERE turn.place = CASE
      WHEN (SELECT count(*) FROM tenant) > $3 THEN (SELECT max(shared.place) FROM shared)
      ELSE (SELECT max(turn.place) FROM turn)
    END
  ) AS served, (SELECT count(*) > 1 FROM tenant) OR (SELECT max(turn.place) = 64 FROM turn) AS has_several;

-- name: seize
-- Claim one message to deliver it now, unless another process is delivering it or it needs no delivery any more.
UPDATE verbworker.inbox_message AS message
SET attempts = message.attempts + 1, owner = $3, next_at = clock_timestamp() + $4::interval
WHERE message.tenant_id = $1 AND message.message_id = $2 AND message.state = 'received'
  AND (message.owner = $3 OR message.next_at <= clock_timestamp())
RETURNING message.tenant_id, message.message_id, message.message_name, message.correlation_key, message.entry_id,
  message.state, message.instance_uid, message.ttl, message.generation, message.attempts, message.sent_by,
  message.traceparent, message.workflow_id, message.correlation_id, message.causation_id,
  message.expires_at <= clock_timestamp() AS is_over;

-- name: candidates
-- Every instance of the engine that a name and a key could mean; of other tenants' only that there is one.
SELECT instance_uid, tenant_id, entry_id, has_ended
FROM verbworker.find_addressees($1, $2, $3, $4);

-- name: is_named
-- Whether a workflow id of an envelope is that of the instance its key means: the business key, or the entry.
SELECT $2::text IN (business_key, entry_id::text) AS is_named
FROM verbworker.workflow_instance
WHERE instance_uid = $1;

-- name: aim
-- Store the recipient before the message goes to the engine. Of one name and key only one may be on its way, so that it is
-- known which of them ended a wait; the index `inbox_message_aimed` decides between two at once. An older message may be
-- seen after a newer one was sent: its transaction committed later.
UPDATE verbworker.inbox_message AS message
SET instance_uid = $5
WHERE message.tenant_id = $1 AND message.message_id = $2 AND message.owner = $3 AND message.generation = $4
  AND message.state = 'received' AND NOT EXISTS (
    SELECT 1
    FROM verbworker.inbox_message AS aimed
    WHERE aimed.tenant_id = $1 AND aimed.message_name = message.message_name
      AND aimed.correlation_key = message.correlation_key AND aimed.state = 'received'
      AND aimed.instance_uid IS NOT NULL AND aimed.message_id <> $2
  )
RETURNING message.message_id;

-- name: sent
-- The engine has it. From now its time runs; a little more than the engine's own, so that we never end it first.
UPDATE verbworker.inbox_message
SET state = 'published', published_at = clock_timestamp(), expires_at = clock_timestamp() + ttl + $5::interval,
  next_at = clock_timestamp() + ttl + $5::interval, attempts = 0, last_error = NULL
WHERE tenant_id = $1 AND message_id = $2 AND owner = $3 AND generation = $4 AND state = 'received'
RETURNING message_id;

-- name: postpone
-- Not now; when to look again, and why.
UPDATE verbworker.inbox_message
SET next_at = clock_timestamp() + $5::interval, last_error = $6
WHERE tenant_id = $1 AND message_id = $2 AND owner = $3 AND generation = $4 AND state = 'received';

-- name: strand
-- A message whose case ended before it was read need not wait for its time to be over.
UPDATE verbworker.inbox_message AS message
SET next_at = clock_timestamp()
FROM verbworker.workflow_instance AS instance
WHERE message.engine_id = $1 AND message.state = 'published' AND message.next_at > clock_timestamp()
  AND instance.instance_uid = message.instance_uid AND instance.ended_at IS NOT NULL;

-- name: bury
-- It cannot be delivered; the letter has the reason.
UPDATE verbworker.inbox_message
SET state = 'dead', last_error = $5
WHERE tenant_id = $1 AND message_id = $2 AND owner = $3 AND generation = $4 AND state IN ('received', 'published')
RETURNING message_id;

-- name: consume
-- A wait of an instance ended: it was the message that was sent first, or else the one that may have been. All are locked,
-- so that two waits take two.
-- One that was given up after it was sent may have been read after all, when the news is late. A wait that ended before
-- has its message.
WITH waiting AS MATERIALIZED (
  SELECT message.tenant_id, message.message_id, message.state, message.queued_at, message.published_at
  FROM verbworker.inbox_message AS message
  WHERE message.instance_uid = $1 AND message.message_name = $2 AND message.correlation_key = $3
    AND (message.state IN ('received', 'published') OR message.state = 'dead' AND EXISTS (
      SELECT 1
      FROM verbworker.dead_letter AS letter
      WHERE letter.tenant_id = message.tenant_id AND letter.message_id = message.message_id
        AND letter.generation = message.generation AND letter.state = 'open'
    ))
    AND NOT EXISTS (
      SELECT 1
      FROM verbworker.inbox_message AS known
      WHERE known.instance_uid = $1 AND known.state = 'consumed' AND known.message_name = $2
        AND known.ended_element = $4 AND known.ended_input = $5
    )
  ORDER BY message.queued_at, message.message_id
  FOR UPDATE
)
UPDATE verbworker.inbox_message AS message
SET state = 'consumed', consumed_at = clock_timestamp(), ended_element = $4, ended_input = $5
FROM (
  SELECT waiting.tenant_id, waiting.message_id, waiting.state
  FROM waiting
  ORDER BY waiting.state = 'dead', waiting.state <> 'published', waiting.published_at, waiting.queued_at,
    waiting.message_id
  LIMIT 1
) AS first
WHERE message.tenant_id = first.tenant_id AND message.message_id = first.message_id
RETURNING message.tenant_id, message.message_id, message.message_name, message.correlation_key, message.payload,
  message.entry_id, message.correlation_id, message.causation_id, message.traceparent, message.generation,
  message.received_at, message.is_opaque, first.state = 'dead' AS was_dead;

-- name: has_ended
-- Whether a message ended this very wait before.
SELECT EXISTS (
  SELECT 1
  FROM verbworker.inbox_message
  WHERE instance_uid = $1 AND state = 'consumed' AND message_name = $2 AND ended_element = $3 AND ended_input = $4
) AS has_ended;

-- name: forget
-- The engine waits again where this message ended the wait: it is to be sent once more.
UPDATE verbworker.inbox_message
SET resend_at = clock_timestamp()
WHERE instance_uid = $1 AND state = 'consumed' AND message_name = $2 AND ended_element = $3 AND ended_input = $4;

-- name: claim_forgotten
-- What is to be sent once more, if its wait is still open or its case makes no progress; the rest is forgotten with the same
-- look.
WITH due AS (
  SELECT message.tenant_id, message.message_id, EXISTS (
    SELECT 1
    FROM verbworker.workflow_instance AS instance
    JOIN verbworker.parked_token AS token ON token.entry_id = instance.entry_id
    WHERE instance.instance_uid = message.instance_uid AND token.instance_uid = message.instance_uid
      AND token.closed_at IS NULL AND token.message_name = message.message_name
      AND token.element_id = message.ended_element AND token.input_hash = message.ended_input
  ) OR EXISTS (
    SELECT 1
    FROM verbworker.workflow_instance AS instance
    JOIN verbworker.stall AS noted ON noted.entry_id = instance.entry_id
    WHERE instance.instance_uid = message.instance_uid AND noted.kind = 'job'
  ) AS is_open
  FROM verbworker.inbox_message AS message
  WHERE message.engine_id = $1 AND message.resend_at <= statement_timestamp()
  ORDER BY message.resend_at
  LIMIT $2
  FOR UPDATE OF message SKIP LOCKED
)
UPDATE verbworker.inbox_message AS message
SET resend_at = CASE WHEN due.is_open THEN clock_timestamp() + $3::interval END
FROM due
WHERE message.tenant_id = due.tenant_id AND message.message_id = due.message_id
RETURNING message.tenant_id, message.message_id, message.message_name, message.correlation_key, message.entry_id,
  message.state, message.instance_uid, message.ttl, message.generation, message.attempts, message.sent_by,
  message.traceparent, message.workflow_id, message.correlation_id, message.causation_id, NOT due.is_open AS is_over;

-- name: resent
-- The engine has it again.
UPDATE verbworker.inbox_message
SET resend_at = NULL
WHERE tenant_id = $1 AND message_id = $2;

-- name: lift
-- Close the letter of a message that was read after all: no person needs to decide.
UPDATE verbworker.dead_letter
SET state = 'consumed', resolved_at = clock_timestamp(), resolved_by = 'verbworker', resolved_reason = 'it was read after all'
WHERE tenant_id = $1 AND message_id = $2 AND generation = $3 AND state = 'open';

-- name: entry_of
-- The entry of an instance, to record that a message came.
SELECT entry_id
FROM verbworker.workflow_instance
WHERE instance_uid = $1;

-- name: backlog
-- How many messages wait to be delivered, and for how long the oldest does.
SELECT count(*) AS waiting, extract(epoch FROM clock_timestamp() - min(queued_at))::float8 AS oldest
FROM verbworker.inbox_message
WHERE engine_id = $1 AND state = 'received';
