-- name: head
-- The payload of record of one instance.
SELECT content, hash, version
FROM verbworker.payload_head
WHERE instance_uid = $1;

-- name: head_for_update
-- The same, held until the caller has merged onto it, with the correlation keys written so far.
SELECT head.content, head.hash, head.version, instance.correlation
FROM verbworker.payload_head AS head
JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = head.instance_uid
WHERE head.instance_uid = $1
FOR UPDATE OF head;

-- name: is_known
-- Whether an instance ever had a payload with this hash.
SELECT EXISTS (
  SELECT 1
  FROM verbworker.payload_version
  WHERE instance_uid = $1 AND hash = $2
) AS known;

-- name: open
-- The first version, written together with the instance and before the engine gets either.
WITH head AS (
  INSERT INTO verbworker.payload_head (instance_uid, version, hash, content)
  VALUES ($1, 0, $2, $3)
  RETURNING instance_uid, hash, version
)
INSERT INTO verbworker.payload_version (instance_uid, hash, version)
SELECT instance_uid, hash, version
FROM head;
