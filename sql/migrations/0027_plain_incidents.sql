-- Incidents that the engine raised in plain processes: they have no entry, so the runbook cannot tell of them. Kept after
-- they are closed, with who resolved them and why.
CREATE TABLE verbworker.plain_incident (
  incident_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  engine_id text NOT NULL,
  incident_key bigint NOT NULL,
  process_id text NOT NULL,
  instance_key bigint NOT NULL,
  element_id text NOT NULL,
  element_instance_key bigint NOT NULL,
  job_key bigint,
  kind text NOT NULL,
  message text NOT NULL,
  raised_at timestamptz NOT NULL,
  -- When a search did not find it any more. It may lag, so it is asked again before the incident is closed.
  missed_at timestamptz,
  closed_at timestamptz,
  -- The last request to resolve it.
  resolved_by text,
  resolved_because text,
  UNIQUE (engine_id, incident_key)
);
CREATE INDEX plain_incident_open ON verbworker.plain_incident (raised_at) WHERE closed_at IS NULL;
CREATE INDEX plain_incident_closed ON verbworker.plain_incident (closed_at) WHERE closed_at IS NOT NULL;

CREATE VIEW verbworker.retired_plain_incident WITH (security_invoker = true) AS
SELECT incident.ctid AS place, incident.closed_at AS since
FROM verbworker.plain_incident AS incident
WHERE incident.closed_at IS NOT NULL;

-- Whether an incident is of a plain process of ours: one that was deployed as plain, or one whose job a plain task of ours
-- has a frame of. A process that a verb starts has entries instead, and other people's processes are none of ours.
CREATE FUNCTION verbworker.is_plain(engine text, definition bigint, instance bigint, job bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT NOT EXISTS (
    SELECT 1 FROM verbworker.workflow_instance AS known
    WHERE known.engine_id = engine AND known.instance_key = instance
  ) AND coalesce(
    (
      SELECT deployment.verb = 'plain' FROM verbworker.process_deployment AS deployment
      WHERE deployment.engine_id = engine AND deployment.definition_key = definition
    ),
    EXISTS (
      SELECT 1 FROM verbworker.job_frame AS frame
      WHERE frame.engine_id = engine AND frame.job_key = job AND frame.instance_uid IS NULL
    )
  )
$$;

-- Record an incident of a plain process, once; false when it is known or not of a plain process. One that was resolved
-- does not come back: a search may lag.
CREATE FUNCTION verbworker.raise_plain_incident(
  engine text, definition bigint, process text, instance bigint, element text, element_instance bigint, job bigint,
  key bigint, type text, words text, at timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF NOT verbworker.is_plain(engine, definition, instance, job) THEN
    RETURN false;
  END IF;
  INSERT INTO verbworker.plain_incident (
    engine_id, incident_key, process_id, instance_key, element_id, element_instance_key, job_key, kind, message, raised_at
  )
  VALUES (
    engine, key, process, instance, element, element_instance, job, type, words, coalesce(at, clock_timestamp()))
  ON CONFLICT (engine_id, incident_key) DO NOTHING;
  IF FOUND THEN
    -- No entry changes, so pages that show incidents would not hear of it.
    PERFORM pg_notify('verbworker_runbook', '');
    RETURN true;
  END IF;
  UPDATE verbworker.plain_incident AS known SET missed_at = NULL
  WHERE known.engine_id = engine AND known.incident_key = key AND known.missed_at IS NOT NULL;
  RETURN false;
END
$$;

-- The engine has an incident of a plain process no more.
CREATE FUNCTION verbworker.settle_plain_incident(engine text, key bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE verbworker.plain_incident AS known SET closed_at = clock_timestamp(), missed_at = NULL
  WHERE known.engine_id = engine AND known.incident_key = key AND known.closed_at IS NULL;
  IF FOUND THEN
    PERFORM pg_notify('verbworker_runbook', '');
  END IF;
  RETURN FOUND;
END
$$;

-- The embedded engine's incidents, as before, and those of plain processes.
CREATE OR REPLACE FUNCTION verbworker_engine.tell_incident() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  engine text := (SELECT engine_id FROM verbworker_engine.identity);
  running verbworker_engine.instance;
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF EXISTS (SELECT 1 FROM verbworker_engine.incident AS one WHERE one.incident_key = NEW.incident_key) THEN
      IF NOT verbworker.raise_incident(
        engine, NEW.instance_key, NEW.element_id, NEW.element_instance_key, NEW.job_key, NEW.incident_key, NEW.kind,
        NEW.message)
      THEN
        SELECT * INTO running FROM verbworker_engine.instance AS one WHERE one.instance_key = NEW.instance_key;
        PERFORM verbworker.raise_plain_incident(
          engine, running.definition_key, running.process_id, NEW.instance_key, NEW.element_id,
          NEW.element_instance_key, NEW.job_key, NEW.incident_key, NEW.kind, NEW.message, NEW.raised_at);
      END IF;
    END IF;
    RETURN NULL;
  END IF;
  -- What has ended waits for nothing; its entry says so.
  IF EXISTS (SELECT 1 FROM verbworker_engine.instance AS one WHERE one.instance_key = OLD.instance_key) THEN
    PERFORM verbworker.settle_incident(engine, OLD.incident_key);
  END IF;
  PERFORM verbworker.settle_plain_incident(engine, OLD.incident_key);
  RETURN NULL;
END
$$;
