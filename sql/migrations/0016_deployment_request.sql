-- What is about to be deployed, written before the engine is asked. An engine may take a model whose answer is lost, and
-- jobs of that definition come before anybody could record it: until then its codes are judged by what was asked for.
CREATE TABLE verbworker.deployment_request (
  engine_id text NOT NULL,
  process_id text NOT NULL,
  woven_sha256 bytea NOT NULL CHECK (length(woven_sha256) = 32),
  catches jsonb NOT NULL,
  requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (engine_id, process_id, woven_sha256)
);
