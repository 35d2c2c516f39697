-- Which engine a worker serves, and when it said that it ends: `verbworker doctor` tells whether one runs. Workers of
-- older versions serve an engine that is not known.
ALTER TABLE verbworker.worker_boot ADD COLUMN engine_id text;
ALTER TABLE verbworker.worker_boot ADD COLUMN ended_at timestamptz;
