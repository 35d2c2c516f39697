-- Claims of native user tasks: one worker sends a claim at a time, and what the engine said to it is kept with the gate,
-- so that the person who claims is told.
ALTER TABLE verbworker.parked_token
  -- No other worker sends the claim of this gate before then.
  ADD COLUMN assign_after timestamptz,
  -- Why the engine does not have the latest claim or release.
  ADD COLUMN assign_trouble text;
