-- An erasure changes events that are sealed, which is what a forger does too. So it has a line in a seal of its own, written
-- in the same commit and signed like any other: an event `Erased` without such a line is none.
ALTER TABLE verbworker.runbook_seal_line ADD COLUMN erased boolean NOT NULL DEFAULT false;
