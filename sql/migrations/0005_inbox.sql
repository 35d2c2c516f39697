-- Messages from outside: kept before anybody is told that they arrived, and until somebody has read them.
CREATE TABLE verbworker.inbox_message (
  tenant_id text NOT NULL,
  message_id text NOT NULL,
  message_name text NOT NULL,
  correlation_key text NOT NULL,
  -- Of the whole envelope: the same id with another body is another message, and refused.
  body_hash bytea NOT NULL,
  payload bytea,
  entry_id uuid,
  correlation_id text,
  causation_id text,
  traceparent text,
  sent_by text NOT NULL,
  state text NOT NULL DEFAULT 'received'
    CHECK (state IN ('received', 'published', 'consumed', 'dead', 'discarded')),
  -- The instance it is for, noted before the engine hears of it: a wait may end before our own note that it was sent.
  instance_uid uuid,
  engine_id text NOT NULL,
  ttl interval NOT NULL CHECK (ttl > interval '0'),
  -- Which delivery this is: a redelivered message is another one to the engine.
  generation integer NOT NULL DEFAULT 0,
  attempts integer NOT NULL DEFAULT 0,
  next_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  owner uuid,
  last_error text,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Its place in the queue of its name and key; a redelivered one queues anew.
  queued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at timestamptz NOT NULL,
  published_at timestamptz,
  consumed_at timestamptz,
  PRIMARY KEY (tenant_id, message_id),
  CHECK (state NOT IN ('published', 'consumed') OR instance_uid IS NOT NULL),
  CHECK ((state = 'consumed') = (consumed_at IS NOT NULL))
) WITH (fillfactor = 70);

CREATE INDEX inbox_message_due ON verbworker.inbox_message (engine_id, next_at) WHERE state IN ('received', 'published');
CREATE INDEX inbox_message_published ON verbworker.inbox_message (engine_id, instance_uid) WHERE state = 'published';
CREATE INDEX inbox_message_of_instance ON verbworker.inbox_message (instance_uid, consumed_at) WHERE instance_uid IS NOT NULL;
CREATE INDEX inbox_message_queue ON verbworker.inbox_message (tenant_id, message_name, correlation_key, queued_at)
WHERE state = 'received';

-- Who waits for a key. Instances without keys cost nothing here.
CREATE INDEX workflow_instance_by_key ON verbworker.workflow_instance USING gin (correlation jsonb_path_ops)
WHERE correlation <> '{}';

-- What could not be delivered, until a person redelivers or discards it.
CREATE TABLE verbworker.dead_letter (
  letter_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  tenant_id text NOT NULL,
  -- None of these is known of an envelope that could not be read; its bytes are in body.
  message_id text,
  message_name text,
  correlation_key text,
  entry_id uuid,
  code text NOT NULL
    CHECK (code IN ('invalid', 'unknown_name', 'no_case', 'several', 'ended', 'mismatch', 'expired', 'refused')),
  reason text NOT NULL,
  body bytea,
  sent_by text NOT NULL,
  generation integer NOT NULL DEFAULT 0,
  state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'redelivered', 'discarded', 'consumed')),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  resolved_at timestamptz,
  resolved_by text,
  resolved_reason text,
  CHECK ((state = 'open') = (resolved_at IS NULL)),
  CHECK ((message_id IS NULL) = (code = 'invalid'))
);

CREATE INDEX dead_letter_open ON verbworker.dead_letter (tenant_id, created_at) WHERE state = 'open';
CREATE UNIQUE INDEX dead_letter_of_message ON verbworker.dead_letter (tenant_id, message_id, generation)
WHERE message_id IS NOT NULL;
-- Who sends the same unreadable thing a thousand times leaves one letter.
CREATE UNIQUE INDEX dead_letter_unreadable ON verbworker.dead_letter (tenant_id, sha256(body))
WHERE message_id IS NULL AND state = 'open';
