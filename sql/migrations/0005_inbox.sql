-- Messages from outside: kept before anybody is told that they arrived, and until somebody has read them.
CREATE TABLE verbworker.inbox_message (
  tenant_id text NOT NULL,
  message_id text NOT NULL,
  message_name text NOT NULL,
  correlation_key text NOT NULL,
  body_hash bytea NOT NULL,
  payload bytea,
  entry_id uuid,
  correlation_id text,
  causation_id text,
  traceparent text,
  state text NOT NULL DEFAULT 'received'
    CHECK (state IN ('received', 'published', 'consumed', 'dead', 'discarded')),
  -- The instance it is for, as soon as that is known.
  instance_uid uuid,
  engine_id text NOT NULL,
  ttl interval NOT NULL,
  -- Which delivery this is: a redelivered message is another one to the engine.
  generation integer NOT NULL DEFAULT 0,
  attempts integer NOT NULL DEFAULT 0,
  next_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  owner uuid,
  last_error text,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  published_at timestamptz,
  consumed_at timestamptz,
  PRIMARY KEY (tenant_id, message_id)
);

CREATE INDEX inbox_message_due ON verbworker.inbox_message (engine_id, next_at) WHERE state IN ('received', 'published');
CREATE INDEX inbox_message_of_instance ON verbworker.inbox_message (instance_uid, consumed_at);
CREATE INDEX inbox_message_by_key ON verbworker.inbox_message (tenant_id, message_name, correlation_key);

-- What could not be delivered, until a person redelivers or discards it.
CREATE TABLE verbworker.dead_letter (
  letter_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  tenant_id text NOT NULL,
  message_id text,
  message_name text,
  correlation_key text,
  entry_id uuid,
  reason text NOT NULL,
  body bytea,
  generation integer NOT NULL DEFAULT 0,
  state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'redelivered', 'discarded')),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  resolved_at timestamptz,
  resolved_by text,
  resolved_reason text,
  CHECK ((state = 'open') = (resolved_at IS NULL))
);

CREATE INDEX dead_letter_open ON verbworker.dead_letter (tenant_id, created_at) WHERE state = 'open';
