-- What the profile of a model promised about its tasks, by the digest that its jobs carry. Rows are never changed.
-- They are written before the engine is told of the model, so that no job can name terms that nobody knows.
CREATE TABLE verbworker.process_terms (
  digest text PRIMARY KEY CHECK (digest LIKE 'sha256:%'),
  process_id text NOT NULL,
  definition_id text NOT NULL,
  ir jsonb NOT NULL,
  policies jsonb NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE verbworker.process_deployment ADD COLUMN terms_digest text REFERENCES verbworker.process_terms (digest);

-- How often a step was come to, for idempotency keys that tell one visit from the next: a visit is an element instance,
-- and keeps its number over every retry.
CREATE TABLE verbworker.step_visit (
  engine_id text NOT NULL,
  process_instance_key bigint NOT NULL,
  element_id text NOT NULL,
  element_instance_key bigint NOT NULL,
  visit integer NOT NULL CHECK (visit > 0),
  PRIMARY KEY (engine_id, process_instance_key, element_id, element_instance_key),
  UNIQUE (engine_id, process_instance_key, element_id, visit)
);
