-- When the engine was asked for the instance of an entry that had ended, and did not have it. An engine that lost its last
-- records, or came back from a backup, may have forgotten the end: such an instance is cancelled.
ALTER TABLE verbworker.workflow_instance ADD COLUMN gone_at timestamptz;
CREATE INDEX workflow_instance_unsettled ON verbworker.workflow_instance (engine_id, ended_at)
WHERE ended_at IS NOT NULL AND gone_at IS NULL AND instance_key IS NOT NULL;

-- The payload with which a wait was reached. Together with the element it names the visit, where no token comes back
-- without a step: a gate whose task got another key is the same gate.
ALTER TABLE verbworker.parked_token ADD COLUMN input_hash bytea;

-- The wait that a message ended, where the payload names the visit. When that wait opens again the engine forgot the
-- message: it is sent once more from `resend_at` on, under its id.
ALTER TABLE verbworker.inbox_message ADD COLUMN ended_element text;
ALTER TABLE verbworker.inbox_message ADD COLUMN ended_input bytea;
ALTER TABLE verbworker.inbox_message ADD COLUMN resend_at timestamptz;
CREATE INDEX inbox_message_resend ON verbworker.inbox_message (engine_id, resend_at) WHERE resend_at IS NOT NULL;
