-- A workflow verb's process instance: written before the engine is asked to start it,
-- so that a job can never arrive for an instance nobody knows.
CREATE TABLE verbworker.workflow_instance (
  instance_uid uuid PRIMARY KEY,
  tenant_id text NOT NULL,
  entry_id uuid NOT NULL,
  verb text NOT NULL,
  verb_version text NOT NULL,
  payload_schema text NOT NULL,
  engine_id text NOT NULL,
  process_id text NOT NULL,
  -- The pin: what the engine answered to start, or what the first job said.
  process_version integer,
  definition_key bigint,
  instance_key bigint,
  business_key text,
  correlation jsonb NOT NULL DEFAULT '{}',
  status text NOT NULL DEFAULT 'starting'
    CHECK (status IN ('starting', 'active', 'completed', 'failed', 'cancelled')),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  started_at timestamptz,
  ended_at timestamptz,
  UNIQUE (engine_id, instance_key)
);

CREATE INDEX workflow_instance_by_entry ON verbworker.workflow_instance (tenant_id, entry_id);

-- The payload of record: one row per instance, the version every branch merges onto.
CREATE TABLE verbworker.payload_head (
  instance_uid uuid PRIMARY KEY,
  version integer NOT NULL,
  hash bytea NOT NULL,
  content bytea NOT NULL
) WITH (fillfactor = 70);

-- A check constraint would hash every payload once more in the statement that has just hashed it for its frame: what
-- moves a head is checked there, and what reads one checks it again. Here the first version is.
CREATE FUNCTION verbworker.refuse_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'new row for "payload_head" violates check constraint "head_is_true"' USING ERRCODE = 'check_violation';
END
$$;

CREATE TRIGGER head_is_true BEFORE INSERT ON verbworker.payload_head
FOR EACH ROW WHEN (NEW.version < 0 OR octet_length(NEW.content) > 1048576 OR NEW.hash <> sha256(NEW.content))
EXECUTE FUNCTION verbworker.refuse_head();

-- Every version an instance ever had, by hash: what the engine hands back must be one of them.
-- No foreign key to workflow_instance: both are written together, and a check per job would cost more than it tells.
CREATE TABLE verbworker.payload_version (
  instance_uid uuid NOT NULL,
  hash bytea NOT NULL,
  version integer NOT NULL,
  job_key bigint,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (instance_uid, hash)
);
