-- name: head
-- The payload of record of one instance, and whether it is the newest of the versions that are known.
SELECT head.content, head.hash, head.version, head.seal, head.unversioned_until, head.flags, EXISTS (
  SELECT 1
  FROM verbworker.payload_version AS version
  WHERE version.instance_uid = head.instance_uid AND version.hash = head.hash AND version.version <= head.version
) AND NOT EXISTS (
  SELECT 1
  FROM verbworker.payload_version AS later
  WHERE later.instance_uid = head.instance_uid AND later.version > head.version
) AS is_known
FROM verbworker.payload_head AS head
WHERE head.instance_uid = $1;

-- name: hold
-- Lock the payload of record until the caller has merged onto it. What a branch wrote meanwhile is read by the next
-- statement: this one still sees the versions as they were before it waited.
SELECT instance.correlation
FROM verbworker.payload_head AS head
JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = head.instance_uid
WHERE head.instance_uid = $1
FOR UPDATE OF head;

-- name: version_of
-- The version of an instance with this hash, if it ever had one.
SELECT version
FROM verbworker.payload_version
WHERE instance_uid = $1 AND hash = $2;

-- name: open
-- The first version, written together with the instance and before the engine gets either.
WITH head AS (
  INSERT INTO verbworker.payload_head (instance_uid, version, hash, content, seal, flags, unversioned_until)
  VALUES ($1, 0, $2, $3, $4, $5::jsonb, NULL)
  RETURNING instance_uid, hash, version, flags
)
INSERT INTO verbworker.payload_version (instance_uid, hash, version, flags)
SELECT instance_uid, hash, version, flags
FROM head;

-- name: unknown_flags
-- Of these values, the flags that never had them: neither did a version set them, nor a person who resolved an incident.
SELECT brought.key AS name
FROM jsonb_each($2::jsonb) AS brought
WHERE NOT EXISTS (
  SELECT 1
  FROM verbworker.payload_version AS version
  WHERE version.instance_uid = $1 AND version.flags -> brought.key = brought.value
) AND NOT EXISTS (
  SELECT 1
  FROM verbworker.workflow_instance AS instance
  JOIN verbworker.runbook_event AS event ON event.entry_id = instance.entry_id
  WHERE instance.instance_uid = $1 AND event.kind = 'ResolveRequested'
    AND event.detail -> 'flags' -> brought.key = brought.value
);

-- name: set_flags
-- Note the flags that a person sets, before the engine gets them. A case of an older release has none to compare.
UPDATE verbworker.payload_head
SET flags = flags || $3::jsonb
WHERE instance_uid = (
  SELECT instance.instance_uid
  FROM verbworker.workflow_instance AS instance
  WHERE instance.engine_id = $1 AND instance.instance_key = $2
);
