-- Native user tasks: the engine's key of the task behind a gate, by which it is completed and assigned, and the assignee
-- that the engine has. A claim that the engine does not have yet is sent to it by a worker.
ALTER TABLE verbworker.parked_token ADD COLUMN user_task_key bigint;
ALTER TABLE verbworker.parked_token ADD COLUMN engine_assignee text;

CREATE INDEX parked_token_unassigned ON verbworker.parked_token (engine_id)
WHERE user_task_key IS NOT NULL AND closed_at IS NULL AND claimed_by IS DISTINCT FROM engine_assignee;

-- Canceled: the engine withdrew the task; an event that fires afterwards says why.
ALTER TABLE verbworker.parked_token DROP CONSTRAINT parked_token_closed_as_check;
ALTER TABLE verbworker.parked_token ADD CONSTRAINT parked_token_closed_as_check
  CHECK (closed_as IN ('resumed', 'decided', 'fired', 'resolved', 'gone', 'ended', 'canceled'));
