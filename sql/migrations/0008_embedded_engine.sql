-- The embedded engine. Everything it knows is here; memory holds nothing that matters.
CREATE SCHEMA verbworker_engine;

-- The engine's clock, in one place so that a test may move it.
CREATE FUNCTION verbworker_engine.now() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE
AS 'SELECT clock_timestamp()';

CREATE TABLE verbworker_engine.definition (
  definition_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  process_id text NOT NULL,
  version integer NOT NULL,
  resource text NOT NULL,
  content bytea NOT NULL,
  deployed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (process_id, version)
);

-- The messages that start an instance: those of the latest version of each process, and of no other.
CREATE TABLE verbworker_engine.message_start (
  process_id text NOT NULL,
  element_id text NOT NULL,
  message_name text NOT NULL,
  definition_key bigint NOT NULL REFERENCES verbworker_engine.definition,
  PRIMARY KEY (process_id, element_id)
);
CREATE INDEX message_start_by_name ON verbworker_engine.message_start (message_name);

-- An instance's key is this number times 2^20, and every key inside it follows: a step needs none from the database,
-- and a key tells its instance.
CREATE SEQUENCE verbworker_engine.instance_number;

-- No foreign key to the definition: its row would be locked by every start of the same process.
CREATE TABLE verbworker_engine.instance (
  instance_key bigint PRIMARY KEY,
  definition_key bigint NOT NULL,
  process_id text NOT NULL,
  tenant_id text NOT NULL,
  -- The correlation key of the message that started it; there is one such instance at a time.
  start_key text,
  -- Bytes, because a variable may hold what jsonb refuses.
  variables bytea NOT NULL,
  state bytea NOT NULL,
  -- Whoever saves a step names the revision it began from: one writer wins, the others look again.
  revision bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX instance_started_once ON verbworker_engine.instance (tenant_id, process_id, start_key)
WHERE start_key IS NOT NULL;

-- What has ended leaves the hot table at once.
CREATE TABLE verbworker_engine.ended_instance (
  instance_key bigint PRIMARY KEY,
  definition_key bigint NOT NULL,
  tenant_id text NOT NULL,
  status text NOT NULL CHECK (status IN ('completed', 'terminated')),
  variables bytea NOT NULL,
  created_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL
);
CREATE INDEX ended_instance_by_age ON verbworker_engine.ended_instance (ended_at);

CREATE TABLE verbworker_engine.job (
  job_key bigint PRIMARY KEY,
  instance_key bigint NOT NULL,
  tenant_id text NOT NULL,
  type text NOT NULL,
  element_id text NOT NULL,
  element_instance_key bigint NOT NULL,
  retries integer NOT NULL,
  headers text NOT NULL,
  -- It stops for a person; the incident says why.
  is_held boolean NOT NULL DEFAULT false,
  -- When it may be handed out: after its backoff, or after the time of the worker who has it.
  due_at timestamptz NOT NULL,
  worker text,
  activated_ms bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_due ON verbworker_engine.job (type, tenant_id, due_at) WHERE NOT is_held;

CREATE TABLE verbworker_engine.timer (
  wait_key bigint PRIMARY KEY,
  instance_key bigint NOT NULL,
  due_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX timer_due ON verbworker_engine.timer (due_at);

-- Several instances may wait for one message and key; each process gets the message once.
CREATE TABLE verbworker_engine.subscription (
  wait_key bigint PRIMARY KEY,
  instance_key bigint NOT NULL,
  tenant_id text NOT NULL,
  process_id text NOT NULL,
  message_name text NOT NULL,
  correlation_key text NOT NULL,
  opened_at timestamptz NOT NULL
);
CREATE INDEX subscription_by_key ON verbworker_engine.subscription (tenant_id, message_name, correlation_key);

-- Messages that wait for somebody who waits for them, and the memory of those that were taken: until they expire.
CREATE TABLE verbworker_engine.message (
  message_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text NOT NULL,
  message_name text NOT NULL,
  correlation_key text NOT NULL,
  message_id text NOT NULL,
  variables bytea NOT NULL,
  expires_at timestamptz NOT NULL,
  taken_by text[] NOT NULL DEFAULT '{}'
);
CREATE UNIQUE INDEX message_once ON verbworker_engine.message (tenant_id, message_name, correlation_key, message_id)
WHERE message_id <> '';
CREATE INDEX message_in_order ON verbworker_engine.message (tenant_id, message_name, correlation_key, message_key);
CREATE INDEX message_by_age ON verbworker_engine.message (expires_at);

CREATE TABLE verbworker_engine.incident (
  incident_key bigint PRIMARY KEY,
  instance_key bigint NOT NULL,
  job_key bigint,
  element_id text NOT NULL,
  kind text NOT NULL,
  message text NOT NULL,
  raised_at timestamptz NOT NULL
);
CREATE INDEX incident_of_job ON verbworker_engine.incident (job_key) WHERE job_key IS NOT NULL;
