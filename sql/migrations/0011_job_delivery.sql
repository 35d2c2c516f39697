-- A job without a frame (listener, gate, compensation) while a worker handles it. The row goes when the job is done;
-- one whose lease is over belongs to a worker that died, and the sweep hands its job out again.
CREATE TABLE verbworker.job_delivery (
  engine_id text NOT NULL,
  job_key bigint NOT NULL,
  type text NOT NULL,
  instance_uid uuid,
  -- What the engine said is left: the sweep gives the job back with the same number.
  retries integer NOT NULL,
  owner uuid NOT NULL,
  lease_until timestamptz NOT NULL,
  delivered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (engine_id, job_key)
) WITH (fillfactor = 70);
