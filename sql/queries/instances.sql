-- name: open
-- An instance exists here before the engine is asked to start it.
INSERT INTO verbworker.workflow_instance (
  instance_uid, tenant_id, entry_id, verb, verb_version, payload_schema, engine_id, process_id, business_key, correlation
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb);

-- name: pin
-- Pin the instance to the engine's key. The first writer wins: the starter, or the first job if the starter died.
-- One that was cancelled before it started stays cancelled.
UPDATE verbworker.workflow_instance
SET instance_key = $2, definition_key = $3, process_version = $4, status = 'active', started_at = clock_timestamp()
WHERE instance_uid = $1 AND instance_key IS NULL AND ended_at IS NULL
RETURNING instance_uid;

-- name: pin_many
-- The same for several instances that were started by one transaction.
UPDATE verbworker.workflow_instance AS instance
SET instance_key = item.instance_key, definition_key = item.definition_key, process_version = item.version,
  status = 'active', started_at = clock_timestamp()
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::integer[])
  AS item (instance_uid, instance_key, definition_key, version)
WHERE instance.instance_uid = item.instance_uid AND instance.instance_uid = ANY ($1::uuid[])
  AND instance.instance_key IS NULL AND instance.ended_at IS NULL
RETURNING instance.instance_uid;

-- name: evict
-- Take a key from the instances that have it, because the engine now uses it for another one: a broker that lost
-- its last records gives keys out again. Each is pinned anew by its next job; what it waited for under the key is over.
WITH evicted AS (
  UPDATE verbworker.workflow_instance AS instance
  SET instance_key = NULL, missed_at = NULL, status = CASE WHEN instance.ended_at IS NULL THEN 'starting' ELSE instance.status END
  WHERE instance.engine_id = (SELECT engine_id FROM verbworker.workflow_instance WHERE instance_uid = $1)
    AND instance.instance_key = $2 AND instance.instance_uid <> $1
  RETURNING instance.entry_id, instance.engine_id, instance.instance_uid
),
closed AS (
  UPDATE verbworker.parked_token AS token
  SET closed_at = clock_timestamp(), closed_as = 'gone'
  FROM evicted
  WHERE token.engine_id = evicted.engine_id AND token.instance_key = $2 AND token.instance_uid = evicted.instance_uid
    AND token.closed_at IS NULL
)
SELECT entry_id
FROM evicted;

-- name: tell_eviction
-- In a statement of its own, so that the entry's status is derived after its old waits are closed.
SELECT verbworker.append_event($1, 'InstanceUnpinned', 'unpinned:' || $3::bigint || ':' || $2::uuid, jsonb_build_object(
  'instance_key', $3::bigint));

-- name: adopt
-- The engine created an instance again under another key: pin it there. What it waited for under the old key is closed;
-- the new instance opens its own waits.
WITH adopted AS (
  UPDATE verbworker.workflow_instance
  SET instance_key = $3, definition_key = $4, process_version = $5, missed_at = NULL
  WHERE instance_uid = $1 AND instance_key = $2 AND ended_at IS NULL
  RETURNING entry_id, engine_id
),
closed AS (
  UPDATE verbworker.parked_token AS token
  SET closed_at = clock_timestamp(), closed_as = 'gone'
  FROM adopted
  WHERE token.engine_id = adopted.engine_id AND token.instance_key = $2 AND token.closed_at IS NULL
)
SELECT entry_id
FROM adopted;

-- name: tell_adoption
-- In a statement of its own, so that the entry's status is derived after its old waits are closed.
SELECT verbworker.append_event($1, 'InstanceAdopted', 'adopted:' || $2::bigint || ':' || $3::bigint, jsonb_build_object(
  'instance_key', $3::bigint, 'was', $2::bigint));

-- name: known
-- What a job's instance is, to hold the job to it.
SELECT
  tenant_id, entry_id, verb, verb_version, engine_id, instance_key, definition_key, correlation, status,
  (SELECT head.flags FROM verbworker.payload_head AS head WHERE head.instance_uid = instance.instance_uid) AS flags
FROM verbworker.workflow_instance AS instance
WHERE instance_uid = $1;

-- name: hold
-- The same, locked while an event is recorded: of two deliveries the second sees what the first did.
SELECT
  tenant_id, entry_id, verb, verb_version, engine_id, instance_key, definition_key, correlation, status,
  (SELECT head.flags FROM verbworker.payload_head AS head WHERE head.instance_uid = instance.instance_uid) AS flags
FROM verbworker.workflow_instance AS instance
WHERE instance_uid = $1
FOR UPDATE;

-- name: hold_carrier
-- The instance that carries an entry out, held while the entry is cancelled.
SELECT instance_uid, engine_id, instance_key
FROM verbworker.workflow_instance
WHERE entry_id = $1
FOR UPDATE;

-- name: miss
-- The engine did not have the instance that an entry is pinned to. The reconciler looks again after a while.
UPDATE verbworker.workflow_instance
SET missed_at = clock_timestamp()
WHERE instance_uid = $1 AND instance_key = $2 AND ended_at IS NULL AND missed_at IS NULL;

-- name: find_again
-- The engine has an instance that it missed before.
UPDATE verbworker.workflow_instance
SET missed_at = NULL
WHERE instance_uid = $1 AND instance_key = $2 AND missed_at IS NOT NULL;

-- name: quiet
-- Instances without news for long, or that the engine missed a while ago, each looked at by one
-- reconciler at a time. One that was missed stays so until the engine answers: it may be away just now.
WITH silent AS (
  SELECT instance.instance_uid, coalesce(instance.missed_at < clock_timestamp() - $4::interval, false) AS is_missed
  FROM verbworker.workflow_instance AS instance
  JOIN verbworker.runbook_entry AS entry ON entry.entry_id = instance.entry_id
  WHERE instance.engine_id = $1 AND instance.ended_at IS NULL AND instance.instance_key IS NOT NULL
    AND (
      instance.missed_at < clock_timestamp() - $4::interval
      OR (
        entry.updated_at < clock_timestamp() - $2::interval
        AND (instance.probed_at IS NULL OR instance.probed_at < clock_timestamp() - $2::interval)
      )
    )
  ORDER BY instance.probed_at NULLS FIRST, instance.created_at
  LIMIT $3
  FOR UPDATE OF instance SKIP LOCKED
)
UPDATE verbworker.workflow_instance AS instance
SET
  probed_at = clock_timestamp(),
  missed_at = CASE WHEN silent.is_missed THEN clock_timestamp() ELSE instance.missed_at END
FROM silent
WHERE instance.instance_uid = silent.instance_uid
RETURNING instance.instance_uid, instance.entry_id, instance.instance_key, silent.is_missed;

-- name: look_again
-- The engine did not answer, so the look does not count: the next one comes in a minute, if that is sooner than usual.
UPDATE verbworker.workflow_instance
SET probed_at = clock_timestamp() - $3::interval + least($3::interval, interval '1 minute')
WHERE instance_uid = $1 AND instance_key = $2 AND missed_at IS NULL;

-- name: is_made_again
-- Whether a job of an instance is with us that is not of the engine instance it is pinned to: the engine lost that one
-- and made it again, and it will be adopted. A listener's job has no key of its instance here, so any of them counts.
SELECT EXISTS (
  SELECT 1
  FROM verbworker.job_frame
  WHERE instance_uid = $1 AND process_instance_key <> $2 AND acked_at IS NULL
) OR EXISTS (
  SELECT 1
  FROM verbworker.job_delivery
  WHERE instance_uid = $1 AND lease_until > clock_timestamp()
) AS is_made_again;

-- name: lingering
-- Instances that should have ended with their entries a while ago and that the engine was not asked for since, each
-- looked at by one reconciler at a time. What ended long ago is left alone.
WITH ended AS (
  SELECT instance.instance_uid
  FROM verbworker.workflow_instance AS instance
  WHERE instance.engine_id = $1 AND instance.ended_at IS NOT NULL AND instance.gone_at IS NULL
    AND instance.instance_key IS NOT NULL
    AND instance.ended_at < statement_timestamp() - $2::interval
    AND instance.ended_at > statement_timestamp() - $4::interval
    AND (
      instance.probed_at IS NULL OR instance.probed_at < instance.ended_at
      OR instance.probed_at < statement_timestamp() - $2::interval
    )
  ORDER BY instance.ended_at
  LIMIT $3
  FOR UPDATE SKIP LOCKED
)
UPDATE verbworker.workflow_instance AS instance
SET probed_at = clock_timestamp()
FROM ended
WHERE instance.instance_uid = ended.instance_uid
RETURNING instance.instance_uid, instance.entry_id, instance.instance_key;

-- name: gone
-- The engine does not have the instance of an entry that ended.
UPDATE verbworker.workflow_instance
SET gone_at = clock_timestamp()
WHERE instance_uid = $1 AND instance_key = $2 AND ended_at IS NOT NULL;

-- name: key_of
-- The engine's key of an instance, when it has one.
SELECT instance_key
FROM verbworker.workflow_instance
WHERE instance_uid = $1;

-- name: of_entry
-- The instance that carries an entry out.
SELECT instance_uid, engine_id, instance_key, status
FROM verbworker.workflow_instance
WHERE entry_id = $1;
