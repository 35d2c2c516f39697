-- What was deployed: the bytes that passed the linter, and what the engine made of them. Rows are never changed.
CREATE TABLE verbworker.process_deployment (
  engine_id text NOT NULL,
  definition_key bigint NOT NULL,
  process_id text NOT NULL,
  version integer NOT NULL,
  verb text NOT NULL,
  resource text NOT NULL,
  authored_sha256 bytea NOT NULL CHECK (length(authored_sha256) = 32),
  woven_sha256 bytea NOT NULL CHECK (woven_sha256 = sha256(woven)),
  woven bytea NOT NULL,
  -- What stands at each element that can wait; listener jobs of older engines say nothing but the element's id.
  waits jsonb NOT NULL DEFAULT '{}',
  -- How many steps the usual way through has, for "3 of 5".
  steps integer NOT NULL DEFAULT 0,
  deployed_by text NOT NULL,
  deployed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (engine_id, definition_key)
);

CREATE INDEX process_deployment_by_process ON verbworker.process_deployment (engine_id, process_id, version DESC);
