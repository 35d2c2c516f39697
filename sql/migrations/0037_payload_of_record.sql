-- The payload of record carries its seal and the flags as they were last written. What a person changes in the database
-- or in the engine does not fit them any more, and is found by what reads it next.
ALTER TABLE verbworker.payload_head
  ADD COLUMN seal text,
  -- Every flag the instance ever had, with its value. NULL: an older release started the instance or moved the head, so
  -- nothing is compared.
  ADD COLUMN flags jsonb,
  -- The last version whose signature may lack the version. Older releases say nothing here, and get the default.
  ADD COLUMN unversioned_until integer DEFAULT 0;

-- The flags that this version set: with the initial ones, every value that a job can bring.
ALTER TABLE verbworker.payload_version ADD COLUMN flags jsonb;

UPDATE verbworker.payload_head AS head
SET unversioned_until = head.version, seal = coalesce(
  (
    SELECT frame.output_seal
    FROM verbworker.payload_version AS made
    JOIN verbworker.job_frame AS frame ON frame.instance_uid = made.instance_uid AND frame.job_key = made.job_key
    WHERE made.instance_uid = head.instance_uid AND made.hash = head.hash AND frame.output_hash = head.hash
    LIMIT 1
  ),
  (
    SELECT old.output_seal
    FROM verbworker.payload_version AS made
    JOIN verbworker.job_frame_archive AS old
      ON old.engine_id IN (instance.engine_id, instance.engine_id || '/undo') AND old.job_key = made.job_key
    WHERE made.instance_uid = head.instance_uid AND made.hash = head.hash AND old.output_hash = head.hash
      AND old.instance_uid = head.instance_uid
    LIMIT 1
  )
)
FROM verbworker.workflow_instance AS instance
WHERE instance.instance_uid = head.instance_uid AND instance.ended_at IS NULL;

-- A head only moves on, to bytes that fit their hash, and never loses its seal or its flags.
CREATE FUNCTION verbworker.check_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.hash <> OLD.hash AND NEW.seal IS NOT DISTINCT FROM OLD.seal THEN
    -- A worker of an older release moves the head without its seal and flags. They are of the version before.
    NEW.seal := NULL;
    NEW.flags := NULL;
    NEW.unversioned_until := NEW.version;
  ELSIF (OLD.seal IS NOT NULL AND NEW.seal IS NULL) OR (OLD.flags IS NOT NULL AND NEW.flags IS NULL) THEN
    RAISE EXCEPTION 'the head of instance % cannot lose its seal or its flags', NEW.instance_uid
      USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.instance_uid <> OLD.instance_uid OR NEW.version < OLD.version OR octet_length(NEW.content) > 1048576
    OR (NEW.hash <> OLD.hash AND NEW.version = OLD.version) OR NEW.hash <> sha256(NEW.content)
  THEN
    RAISE EXCEPTION 'new row for "payload_head" violates check constraint "head_is_true"'
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$;

-- What every step does passes the condition alone; the function is for the rest.
CREATE TRIGGER head_moves_on BEFORE UPDATE ON verbworker.payload_head
FOR EACH ROW WHEN (
  NEW.version < OLD.version OR NEW.instance_uid <> OLD.instance_uid OR octet_length(NEW.content) > 1048576
  OR (NEW.hash <> OLD.hash AND (NEW.version = OLD.version OR NEW.seal IS NOT DISTINCT FROM OLD.seal))
  OR (NEW.seal IS NULL AND OLD.seal IS NOT NULL) OR (NEW.flags IS NULL AND OLD.flags IS NOT NULL)
  OR NEW.hash <> sha256(NEW.content)
)
EXECUTE FUNCTION verbworker.check_head();

-- Store a verdict whose frame and head are locked, and move the head to it, with its seal and flags.
CREATE OR REPLACE FUNCTION verbworker.store_verdict(
  engine text, job bigint, uid uuid, bytes bytea, digest bytea, seal text, flag_values text, keys text, acknowledged text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  next_version bigint;
  given jsonb := flag_values::jsonb;
BEGIN
  UPDATE verbworker.payload_head AS head
  SET version = head.version + 1, hash = digest, content = bytes, seal = store_verdict.seal, flags = head.flags || given,
    -- A worker of an older release signs without the version.
    unversioned_until = CASE
      WHEN store_verdict.seal LIKE 'hmac-sha256:%' THEN head.version + 1
      ELSE head.unversioned_until
    END
  WHERE head.instance_uid = uid
  RETURNING head.version INTO next_version;
  INSERT INTO verbworker.payload_version (instance_uid, hash, version, job_key, flags)
  VALUES (uid, digest, next_version, job, CASE WHEN flag_values <> '{}' THEN given END)
  ON CONFLICT (instance_uid, hash) DO NOTHING;
  UPDATE verbworker.job_frame AS frame
  SET state = 'completed', outcome = 'complete', output = bytes, output_hash = digest, output_seal = store_verdict.seal,
    flags = given, correlation = keys::jsonb, popped_at = clock_timestamp(), reported_at = NULL,
    acked_at = CASE WHEN acknowledged IS NOT NULL THEN clock_timestamp() END, ack_result = acknowledged
  WHERE frame.engine_id = engine AND frame.job_key = job;
  IF keys <> '{}' THEN
    UPDATE verbworker.workflow_instance AS instance
    SET correlation = keys::jsonb || instance.correlation
    WHERE instance.instance_uid = uid;
  END IF;
END
$$;
