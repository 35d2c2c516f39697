-- name: heads
-- The payloads of record of a tenant or of one entry, a page at a time, each with what the steps, the people who resolved
-- an incident and the end of the case say of it. Only what is signed is read.
SELECT
  instance.entry_id, head.instance_uid, instance.tenant_id, head.version, head.seal, head.unversioned_until, head.flags,
  CASE WHEN head.seal LIKE 'hmac-%' THEN head.content END AS signed,
  head.hash = sha256(head.content) AS is_hashed,
  head.seal LIKE 'sha256:%' AND head.seal <> 'sha256:' || encode(head.hash, 'hex') AS is_other_seal,
  made.is_known, made.newest, made.twice,
  (
    SELECT jsonb_object_agg(flag.key, flag.value ORDER BY write.at)
    FROM (
      SELECT version.flags, version.created_at AS at
      FROM verbworker.payload_version AS version
      WHERE version.instance_uid = head.instance_uid AND version.flags IS NOT NULL
      UNION ALL
      SELECT event.detail -> 'flags', event.at
      FROM verbworker.runbook_event AS event
      WHERE event.entry_id = instance.entry_id AND event.kind = 'ResolveRequested' AND event.detail ? 'flags'
    ) AS write
    CROSS JOIN LATERAL jsonb_each(write.flags) AS flag
  ) AS written,
  (
    SELECT event.detail -> 'flags'
    FROM verbworker.runbook_event AS event
    WHERE event.entry_id = instance.entry_id AND event.kind = 'ExecutionResult'
    ORDER BY event.seq
    LIMIT 1
  ) AS at_the_end
FROM verbworker.workflow_instance AS instance
JOIN verbworker.payload_head AS head ON head.instance_uid = instance.instance_uid
CROSS JOIN LATERAL (
  SELECT
    coalesce(bool_or(version.hash = head.hash AND version.version <= head.version), false) AS is_known,
    max(version.version) AS newest,
    CASE WHEN count(*) > count(DISTINCT version.version) THEN (
      SELECT min(one.version)
      FROM verbworker.payload_version AS one
      JOIN verbworker.payload_version AS other
        ON other.instance_uid = one.instance_uid AND other.version = one.version AND other.hash < one.hash
      WHERE one.instance_uid = head.instance_uid
    ) END AS twice
  FROM verbworker.payload_version AS version
  WHERE version.instance_uid = head.instance_uid
) AS made
WHERE instance.tenant_id = $1 AND ($2::uuid IS NULL OR instance.entry_id = $2)
  AND ($3::uuid IS NULL OR head.instance_uid > $3)
ORDER BY head.instance_uid
LIMIT $4;

-- name: steps
-- Versions that are not what the result of their job is. A result stays with its job and cannot be changed by a worker. One
-- that no job stored is the first alone; of an ended case, retention may have dropped the results.
SELECT
  instance.entry_id, version.version, version.job_key, result.is_payload, result.is_seal, result.is_flags
FROM verbworker.workflow_instance AS instance
JOIN verbworker.payload_head AS head ON head.instance_uid = instance.instance_uid
JOIN verbworker.payload_version AS version ON version.instance_uid = instance.instance_uid
CROSS JOIN LATERAL (
  SELECT
    bool_or(frame.output_hash = version.hash) AS is_payload,
    bool_or(version.hash <> head.hash OR head.seal IS NULL OR frame.output_seal = head.seal) AS is_seal,
    bool_or(head.flags IS NULL OR coalesce(frame.flags, '{}') = coalesce(version.flags, '{}')) AS is_flags
  FROM (
    SELECT output_hash, output_seal, flags
    FROM verbworker.job_frame
    WHERE instance_uid = version.instance_uid AND job_key = version.job_key AND state = 'completed'
    UNION ALL
    SELECT output_hash, output_seal, flags
    FROM verbworker.job_frame_archive
    WHERE engine_id IN (instance.engine_id, instance.engine_id || '/undo') AND job_key = version.job_key
      AND instance_uid = version.instance_uid AND state = 'completed'
  ) AS frame
) AS result
WHERE instance.tenant_id = $1 AND ($2::uuid IS NULL OR instance.entry_id = $2)
  AND CASE
    WHEN result.is_payload IS NOT NULL THEN NOT (result.is_payload AND result.is_seal AND result.is_flags)
    WHEN version.job_key IS NULL THEN version.version <> 0
    ELSE instance.ended_at IS NULL OR version.version < 1
  END
ORDER BY instance.entry_id, version.version;
