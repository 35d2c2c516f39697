-- Upkeep that one worker of many does per period, such as the searches of the reconciler. Whoever finds a turn due takes
-- it and holds it for a while: when that worker dies or freezes, the turn is due again after that.
CREATE TABLE verbworker.upkeep_turn (
  engine_id text NOT NULL,
  service text NOT NULL,
  owner uuid NOT NULL,
  -- Counts the turns, so that a worker that was frozen cannot end the turn of another one.
  number bigint NOT NULL DEFAULT 1,
  due_at timestamptz NOT NULL,
  -- Up to when the last turn has looked; the next one goes on from there, in whatever process.
  looked_until timestamptz,
  PRIMARY KEY (engine_id, service)
);

-- When a job of an entry that stands still was last handed out again, by any worker.
ALTER TABLE verbworker.stall ADD COLUMN nudged_at timestamptz;
