-- The runbook: what was asked, what waits for whom, what happened. If it is not in here, it did not happen.
CREATE TABLE verbworker.runbook_entry (
  entry_id uuid PRIMARY KEY,
  tenant_id text NOT NULL,
  -- The caller's own key for the request: asked twice, it is done once.
  request_key text,
  request_hash bytea NOT NULL,
  verb text NOT NULL,
  verb_version text NOT NULL,
  mode text NOT NULL CHECK (mode IN ('sync', 'durable', 'human_gate')),
  sentence text NOT NULL,
  invocation text NOT NULL,
  args bytea NOT NULL,
  asked_by text NOT NULL,
  provenance jsonb NOT NULL DEFAULT '{}',
  traceparent text,
  status text NOT NULL DEFAULT 'executing'
    CHECK (status IN ('executing', 'parked', 'completed', 'failed', 'cancelled')),
  -- What the caller gets. Bytes, because a result may hold what jsonb refuses.
  outcome bytea,
  -- The pin of a durable entry: what the engine answered to its start.
  process_id text,
  process_version integer,
  definition_key bigint,
  cancel_requested_at timestamptz,
  -- Who performs a direct verb just now; lease time is the database's own.
  owner uuid,
  epoch bigint NOT NULL DEFAULT 0,
  lease_until timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at timestamptz,
  -- The head of the chain of events.
  last_seq bigint NOT NULL DEFAULT 0,
  last_hash bytea NOT NULL DEFAULT '\x',
  UNIQUE (tenant_id, request_key),
  CHECK ((ended_at IS NULL) = (status IN ('executing', 'parked')))
) WITH (fillfactor = 70);

CREATE INDEX runbook_entry_by_age ON verbworker.runbook_entry (tenant_id, created_at DESC);
CREATE INDEX runbook_entry_open ON verbworker.runbook_entry (created_at) WHERE ended_at IS NULL;

-- Each event carries the hash of the one before, so that none can be changed, dropped or slipped in unseen.
CREATE TABLE verbworker.runbook_event (
  entry_id uuid NOT NULL REFERENCES verbworker.runbook_entry,
  seq bigint NOT NULL,
  at timestamptz NOT NULL,
  kind text NOT NULL,
  -- What makes a repetition harmless: the same thing is told once.
  once text NOT NULL,
  detail jsonb NOT NULL,
  status text NOT NULL,
  hash bytea NOT NULL,
  PRIMARY KEY (entry_id, seq),
  UNIQUE (entry_id, once)
);

-- What an entry waits for. Open while closed_at is null; an entry with an open token is parked.
CREATE TABLE verbworker.parked_token (
  token_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  tenant_id text NOT NULL,
  entry_id uuid NOT NULL,
  instance_uid uuid NOT NULL,
  engine_id text NOT NULL,
  instance_key bigint NOT NULL,
  element_instance_key bigint NOT NULL,
  element_id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('human_gate', 'external_signal', 'timer', 'incident')),
  -- Words for people, never about BPMN.
  reason text NOT NULL,
  gate text,
  message_name text,
  correlation_key text,
  job_key bigint,
  detail jsonb NOT NULL DEFAULT '{}',
  claimed_by text,
  opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- When the engine last said that it still waits.
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  closed_at timestamptz,
  closed_as text CHECK (closed_as IN ('resumed', 'decided', 'fired', 'resolved', 'gone', 'ended')),
  UNIQUE (engine_id, element_instance_key, kind),
  CHECK ((closed_at IS NULL) = (closed_as IS NULL))
) WITH (fillfactor = 70);

CREATE INDEX parked_token_open ON verbworker.parked_token (entry_id) WHERE closed_at IS NULL;
CREATE INDEX parked_token_of_instance ON verbworker.parked_token (engine_id, instance_key) WHERE closed_at IS NULL;

-- Start requests that must survive an engine outage; done_at says that the engine has them.
CREATE TABLE verbworker.dispatch (
  instance_uid uuid PRIMARY KEY,
  entry_id uuid NOT NULL REFERENCES verbworker.runbook_entry,
  engine_id text NOT NULL,
  process_id text NOT NULL,
  variables bytea NOT NULL,
  -- How often the engine was asked. More than once means that an answer was lost, and that a twin may exist.
  attempts integer NOT NULL DEFAULT 0,
  next_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  owner uuid,
  last_error text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  done_at timestamptz
);

CREATE INDEX dispatch_of_entry ON verbworker.dispatch (entry_id);
CREATE INDEX dispatch_due ON verbworker.dispatch (engine_id, next_at) WHERE done_at IS NULL;

-- When somebody last looked whether the engine still has a quiet instance.
ALTER TABLE verbworker.workflow_instance ADD COLUMN probed_at timestamptz;
CREATE INDEX workflow_instance_of_entry ON verbworker.workflow_instance (entry_id);
CREATE INDEX workflow_instance_open ON verbworker.workflow_instance (engine_id) WHERE ended_at IS NULL;

-- The one place where an event decides the status of its entry. A status that ended stays.
CREATE FUNCTION verbworker.status_after(kind text, detail jsonb, waits boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN kind = 'ExecutionResult' AND detail ->> 'result' = 'ok' THEN 'completed'
    WHEN kind = 'ExecutionResult' THEN 'failed'
    WHEN kind = 'Cancelled' THEN 'cancelled'
    WHEN waits THEN 'parked'
    ELSE 'executing'
  END
$$;

CREATE FUNCTION verbworker.event_hash(
  previous bytea, entry uuid, seq bigint, at timestamptz, kind text, once text, detail jsonb, status text
) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
  SELECT sha256(previous || convert_to(
    concat_ws(E'\n', entry, seq, (extract(epoch FROM at) * 1000000)::bigint, kind, status, once, detail), 'UTF8'))
$$;

-- Tell one thing once. Nothing is written, and null returned, when the entry is unknown, when it was told before,
-- or when a second end would contradict the first.
CREATE FUNCTION verbworker.append_event(entry uuid, kind text, once text, detail jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  held verbworker.runbook_entry;
  now_is timestamptz := clock_timestamp();
  next_status text;
  next_hash bytea;
  ends boolean;
BEGIN
  SELECT * INTO held FROM verbworker.runbook_entry AS e WHERE e.entry_id = entry FOR UPDATE;
  IF NOT FOUND OR EXISTS (
    SELECT 1 FROM verbworker.runbook_event AS told WHERE told.entry_id = entry AND told.once = append_event.once
  ) THEN
    RETURN NULL;
  END IF;
  next_status := verbworker.status_after(kind, detail, EXISTS (
    SELECT 1 FROM verbworker.parked_token AS t WHERE t.entry_id = entry AND t.closed_at IS NULL));
  ends := next_status NOT IN ('executing', 'parked');
  IF held.ended_at IS NOT NULL THEN
    IF ends THEN
      RETURN NULL;
    END IF;
    next_status := held.status;
  END IF;
  IF next_status NOT IN ('executing', 'parked') THEN
    -- What has ended waits for nothing, not even for a wait that was on its way when it ended.
    UPDATE verbworker.parked_token AS t SET closed_at = now_is, closed_as = 'ended'
    WHERE t.entry_id = entry AND t.closed_at IS NULL;
  END IF;
  next_hash := verbworker.event_hash(
    held.last_hash, entry, held.last_seq + 1, now_is, kind, once, detail, next_status);
  INSERT INTO verbworker.runbook_event (entry_id, seq, at, kind, once, detail, status, hash)
  VALUES (entry, held.last_seq + 1, now_is, kind, once, detail, next_status, next_hash);
  UPDATE verbworker.runbook_entry AS e SET
    last_seq = held.last_seq + 1,
    last_hash = next_hash,
    status = next_status,
    updated_at = now_is,
    ended_at = CASE WHEN ends THEN now_is ELSE e.ended_at END
  WHERE e.entry_id = entry;
  IF next_status <> held.status THEN
    PERFORM pg_notify('verbworker_runbook', entry::text);
  END IF;
  RETURN held.last_seq + 1;
END
$$;

CREATE FUNCTION verbworker.refuse_event_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'runbook events are appended and never changed'
    USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER events_are_final BEFORE UPDATE OR DELETE OR TRUNCATE ON verbworker.runbook_event
FOR EACH STATEMENT EXECUTE FUNCTION verbworker.refuse_event_change();

-- What a frame's write means for people, in the same commit. Whose entry it is the database knows; a job only claims it.
CREATE FUNCTION verbworker.tell_frame() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  known verbworker.workflow_instance;
  told jsonb;
BEGIN
  SELECT * INTO known FROM verbworker.workflow_instance AS i
  WHERE i.instance_uid = NEW.instance_uid AND (i.instance_key IS NULL OR i.instance_key = NEW.process_instance_key);
  -- What was done is told even of an entry that has ended; that a late job of it stopped concerns nobody.
  IF NOT FOUND OR NOT EXISTS (
    SELECT 1 FROM verbworker.runbook_entry AS e
    WHERE e.entry_id = known.entry_id AND (NEW.state = 'completed' OR e.ended_at IS NULL)
  ) THEN
    RETURN NULL;
  END IF;
  told := jsonb_build_object(
    'verb', NEW.verb, 'element', NEW.element_id, 'job_key', NEW.job_key, 'instance_key', NEW.process_instance_key);
  IF NEW.engine_id LIKE '%/undo' THEN
    told := told || jsonb_build_object('undoes', (
      SELECT record.verb FROM verbworker.compensation_record AS record WHERE record.record_id = NEW.job_key));
  END IF;
  IF NEW.state = 'completed' THEN
    PERFORM verbworker.append_event(
      known.entry_id,
      CASE WHEN NEW.engine_id LIKE '%/undo' THEN 'Compensated' ELSE 'StepCompleted' END,
      'step:' || NEW.engine_id || ':' || NEW.job_key,
      told || jsonb_build_object('runs', NEW.runs, 'outcome', NEW.outcome, 'error_code', NEW.error_code));
  ELSIF NEW.state = 'incident' THEN
    INSERT INTO verbworker.parked_token AS token (
      tenant_id, entry_id, instance_uid, engine_id, instance_key, element_instance_key, element_id, kind, reason, job_key)
    VALUES (
      known.tenant_id, known.entry_id, known.instance_uid, NEW.engine_id, NEW.process_instance_key,
      NEW.element_instance_key, NEW.element_id, 'incident', 'Waiting for an operator: ' || NEW.verb, NEW.job_key)
    ON CONFLICT (engine_id, element_instance_key, kind) DO UPDATE SET
      closed_at = NULL, closed_as = NULL, opened_at = clock_timestamp(), job_key = excluded.job_key;
    PERFORM verbworker.append_event(
      known.entry_id, 'IncidentRaised', 'incident:' || NEW.engine_id || ':' || NEW.job_key || ':' || NEW.epoch,
      told || jsonb_build_object('class', NEW.fail_class, 'code', NEW.fail_code, 'text', NEW.fail_text));
    PERFORM verbworker.append_event(
      known.entry_id, 'Parked', 'held:' || NEW.engine_id || ':' || NEW.job_key || ':' || NEW.epoch,
      told || jsonb_build_object('wait', 'incident', 'reason', 'Waiting for an operator: ' || NEW.verb));
  ELSE
    UPDATE verbworker.parked_token AS token SET closed_at = clock_timestamp(), closed_as = 'resolved'
    WHERE token.engine_id = NEW.engine_id AND token.element_instance_key = NEW.element_instance_key
      AND token.kind = 'incident' AND token.closed_at IS NULL;
    PERFORM verbworker.append_event(
      known.entry_id, 'IncidentResolved', 'resolved:' || NEW.engine_id || ':' || NEW.job_key || ':' || NEW.epoch, told);
    PERFORM verbworker.append_event(
      known.entry_id, 'Resumed', 'released:' || NEW.engine_id || ':' || NEW.job_key || ':' || NEW.epoch,
      told || jsonb_build_object('wait', 'incident'));
  END IF;
  RETURN NULL;
END
$$;

CREATE TRIGGER frame_is_told AFTER UPDATE OF state ON verbworker.job_frame
FOR EACH ROW WHEN (
  NEW.instance_uid IS NOT NULL AND NEW.state <> OLD.state
  AND (NEW.state IN ('completed', 'incident') OR OLD.state = 'incident')
)
EXECUTE FUNCTION verbworker.tell_frame();

-- An instance becomes known to the engine: the entry is pinned to its version, and nobody starts it again.
CREATE FUNCTION verbworker.tell_start() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE verbworker.dispatch SET done_at = clock_timestamp(), variables = ''
  WHERE instance_uid = NEW.instance_uid AND done_at IS NULL;
  UPDATE verbworker.runbook_entry SET process_version = NEW.process_version, definition_key = NEW.definition_key
  WHERE entry_id = NEW.entry_id AND definition_key IS NULL;
  PERFORM verbworker.append_event(NEW.entry_id, 'DurableTaskStarted', 'started', jsonb_build_object(
    'instance_key', NEW.instance_key, 'process', NEW.process_id, 'version', NEW.process_version,
    'definition_key', NEW.definition_key));
  RETURN NULL;
END
$$;

CREATE TRIGGER start_is_told AFTER UPDATE OF instance_key ON verbworker.workflow_instance
FOR EACH ROW WHEN (OLD.instance_key IS NULL AND NEW.instance_key IS NOT NULL)
EXECUTE FUNCTION verbworker.tell_start();

-- An entry that ends takes its instance with it: one truth for both.
CREATE FUNCTION verbworker.tell_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE verbworker.workflow_instance SET status = NEW.status, ended_at = NEW.ended_at
  WHERE entry_id = NEW.entry_id AND ended_at IS NULL;
  RETURN NULL;
END
$$;

CREATE TRIGGER end_is_told AFTER UPDATE OF ended_at ON verbworker.runbook_entry
FOR EACH ROW WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL)
EXECUTE FUNCTION verbworker.tell_end();
