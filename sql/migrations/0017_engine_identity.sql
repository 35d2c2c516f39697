-- The one name of the engine in this database. Frames, gates and idempotency keys are kept by engine and job: a worker that
-- calls the same engine by another name would have jobs run twice under two keys, and gates asked twice.
CREATE TABLE verbworker_engine.identity (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  engine_id text NOT NULL,
  named_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- An engine that has worked before keeps the name under which it did.
INSERT INTO verbworker_engine.identity (engine_id)
SELECT known.engine_id
FROM verbworker_engine.instance AS instance
JOIN verbworker.workflow_instance AS known ON known.instance_key = instance.instance_key
ORDER BY known.created_at DESC
LIMIT 1;
