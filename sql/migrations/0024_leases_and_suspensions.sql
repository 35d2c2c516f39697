-- Whether a worker takes jobs under leases of the engine: `verbworker doctor` finds workers that differ in that, because
-- an engine never gives a job that was leased once to a worker without leases. Workers of older versions have none.
ALTER TABLE verbworker.worker_boot ADD COLUMN leases boolean NOT NULL DEFAULT false;

-- An instance that a person has suspended in the engine (Camunda 8.10): its entry waits until it is resumed.
ALTER TABLE verbworker.parked_token DROP CONSTRAINT parked_token_kind_check;
ALTER TABLE verbworker.parked_token ADD CONSTRAINT parked_token_kind_check
  CHECK (kind IN ('human_gate', 'external_signal', 'timer', 'incident', 'suspended'));
CREATE INDEX parked_token_suspended ON verbworker.parked_token (engine_id)
WHERE kind = 'suspended' AND closed_at IS NULL;
