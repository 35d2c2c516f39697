-- What the engine raises reaches the runbook: a thrown code that nothing catches, a gateway without a way, a listener out
-- of retries. The token of a held job gets the key of its incident too, so that a person need not look for it.
ALTER TABLE verbworker.parked_token
  ADD COLUMN incident_key bigint,
  ADD COLUMN incident_type text,
  ADD COLUMN incident_text text,
  -- When a search did not find the incident any more. It may lag, so it is asked again before the token is closed.
  ADD COLUMN missed_at timestamptz;
CREATE INDEX parked_token_by_incident ON verbworker.parked_token (engine_id, incident_key) WHERE incident_key IS NOT NULL;
CREATE INDEX parked_token_by_kind ON verbworker.parked_token (engine_id, kind) WHERE closed_at IS NULL;

-- Where the incident is; 0 for incidents of earlier versions.
ALTER TABLE verbworker_engine.incident ADD COLUMN element_instance_key bigint NOT NULL DEFAULT 0;

-- A token that opens again belongs to another incident than before.
CREATE FUNCTION verbworker.forget_incident() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.missed_at := NULL;
  IF NEW.incident_key IS NOT DISTINCT FROM OLD.incident_key THEN
    NEW.incident_key := NULL;
    NEW.incident_type := NULL;
    NEW.incident_text := NULL;
  END IF;
  RETURN NEW;
END
$$;

CREATE TRIGGER incident_is_another BEFORE UPDATE OF closed_at ON verbworker.parked_token
FOR EACH ROW WHEN (OLD.closed_at IS NOT NULL AND NEW.closed_at IS NULL AND OLD.kind = 'incident')
EXECUTE FUNCTION verbworker.forget_incident();

-- Record an incident of the engine, once. True when the entry waits for an operator only because of it; false when it is
-- known, belongs to a held frame, or to no open entry of ours. One that was resolved does not come back: a search may lag.
CREATE FUNCTION verbworker.raise_incident(
  engine text, instance bigint, element text, element_instance bigint, job bigint, key bigint, type text, words text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  known verbworker.workflow_instance;
  held verbworker.parked_token;
  performer text;
  reason_is text;
  told jsonb;
BEGIN
  SELECT * INTO known FROM verbworker.workflow_instance AS i
  WHERE i.engine_id = engine AND i.instance_key = instance AND i.ended_at IS NULL;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  -- The job that walks an undo stops because the frame of the undo is held: one thing to see to, one token.
  UPDATE verbworker.parked_token AS token
  SET incident_key = key, incident_type = type, incident_text = words, missed_at = NULL
  FROM verbworker.compensation_record AS record
  WHERE record.instance_uid = known.instance_uid AND record.job_key = job AND record.state = 'held'
    AND token.engine_id = engine || '/undo' AND token.element_instance_key = record.element_instance_key
    AND token.kind = 'incident' AND token.closed_at IS NULL;
  IF FOUND THEN
    RETURN false;
  END IF;
  SELECT frame.verb INTO performer FROM verbworker.job_frame AS frame
  WHERE frame.engine_id = engine AND frame.job_key = job;
  reason_is := 'Waiting for an operator: ' || coalesce(performer, element);
  INSERT INTO verbworker.parked_token (
    tenant_id, entry_id, instance_uid, engine_id, instance_key, element_instance_key, element_id, kind, reason, job_key,
    incident_key, incident_type, incident_text
  )
  VALUES (
    known.tenant_id, known.entry_id, known.instance_uid, engine, instance, element_instance, element, 'incident',
    reason_is, job, key, type, words
  )
  ON CONFLICT (engine_id, element_instance_key, kind) DO NOTHING
  RETURNING * INTO held;
  IF NOT FOUND THEN
    SELECT * INTO held FROM verbworker.parked_token AS token
    WHERE token.engine_id = engine AND token.element_instance_key = element_instance AND token.kind = 'incident'
    FOR UPDATE;
    IF held.incident_key = key THEN
      IF held.missed_at IS NOT NULL THEN
        UPDATE verbworker.parked_token SET missed_at = NULL WHERE token_id = held.token_id;
      END IF;
      RETURN false;
    END IF;
    UPDATE verbworker.parked_token AS token SET
      closed_at = NULL, closed_as = NULL, missed_at = NULL,
      opened_at = CASE WHEN token.closed_at IS NULL THEN token.opened_at ELSE clock_timestamp() END,
      reason = CASE WHEN token.closed_at IS NULL THEN token.reason ELSE reason_is END,
      job_key = coalesce(job, token.job_key), incident_key = key, incident_type = type, incident_text = words
    WHERE token.token_id = held.token_id;
    IF held.closed_at IS NULL THEN
      RETURN false;
    END IF;
  END IF;
  told := jsonb_build_object(
    'verb', performer, 'element', element, 'job_key', job, 'instance_key', instance, 'incident_key', key, 'code', type,
    'text', words);
  PERFORM verbworker.append_event(known.entry_id, 'IncidentRaised', 'incident:' || engine || ':key:' || key, told);
  PERFORM verbworker.append_event(
    known.entry_id, 'Parked', 'held:' || engine || ':key:' || key,
    told || jsonb_build_object('wait', 'incident', 'reason', reason_is));
  RETURN true;
END
$$;

-- The engine has an incident no more. A frame that is held keeps its token until the job is handed out again.
CREATE FUNCTION verbworker.settle_incident(engine text, key bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  held verbworker.parked_token;
  told jsonb;
BEGIN
  SELECT * INTO held FROM verbworker.parked_token AS token
  WHERE token.engine_id IN (engine, engine || '/undo') AND token.incident_key = key AND token.closed_at IS NULL
  FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF EXISTS (
    SELECT 1 FROM verbworker.job_frame AS frame
    WHERE frame.engine_id = held.engine_id AND frame.job_key = held.job_key AND frame.state = 'incident'
  ) THEN
    UPDATE verbworker.parked_token
    SET incident_key = NULL, incident_type = NULL, incident_text = NULL, missed_at = NULL
    WHERE token_id = held.token_id;
    RETURN false;
  END IF;
  UPDATE verbworker.parked_token
  SET closed_at = clock_timestamp(), closed_as = 'resolved', missed_at = NULL
  WHERE token_id = held.token_id;
  told := jsonb_build_object(
    'verb', (
      SELECT frame.verb FROM verbworker.job_frame AS frame
      WHERE frame.engine_id = held.engine_id AND frame.job_key = held.job_key),
    'element', held.element_id, 'job_key', held.job_key, 'instance_key', held.instance_key, 'incident_key', key);
  PERFORM verbworker.append_event(held.entry_id, 'IncidentResolved', 'resolved:' || engine || ':key:' || key, told);
  PERFORM verbworker.append_event(
    held.entry_id, 'Resumed', 'released:' || engine || ':key:' || key,
    told || jsonb_build_object('wait', 'incident'));
  RETURN true;
END
$$;

-- The embedded engine's incidents are told in the commit that raises them, at its end: an instance is pinned to its entry
-- in the same commit, after its first step.
CREATE FUNCTION verbworker_engine.tell_incident() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  engine text := (SELECT engine_id FROM verbworker_engine.identity);
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF EXISTS (SELECT 1 FROM verbworker_engine.incident AS one WHERE one.incident_key = NEW.incident_key) THEN
      PERFORM verbworker.raise_incident(
        engine, NEW.instance_key, NEW.element_id, NEW.element_instance_key, NEW.job_key, NEW.incident_key, NEW.kind,
        NEW.message);
    END IF;
  -- What has ended waits for nothing; its entry says so.
  ELSIF EXISTS (SELECT 1 FROM verbworker_engine.instance AS one WHERE one.instance_key = OLD.instance_key) THEN
    PERFORM verbworker.settle_incident(engine, OLD.incident_key);
  END IF;
  RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER incident_is_told AFTER INSERT OR DELETE ON verbworker_engine.incident
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION verbworker_engine.tell_incident();
