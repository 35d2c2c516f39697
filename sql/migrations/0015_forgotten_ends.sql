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

-- An engine that lost its last records may give the key of an element instance to another case. The wait that had it gives
-- way: it keeps its own id, and a key that no engine gives out.
CREATE FUNCTION verbworker.displace_token() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE verbworker.parked_token AS token SET
    element_instance_key = least(0, (
      SELECT min(other.element_instance_key)
      FROM verbworker.parked_token AS other
      WHERE other.engine_id = NEW.engine_id
    )) - 1,
    closed_at = coalesce(token.closed_at, clock_timestamp()),
    closed_as = coalesce(token.closed_as, 'gone')
  WHERE token.engine_id = NEW.engine_id AND token.element_instance_key = NEW.element_instance_key
    AND token.kind = NEW.kind AND token.instance_uid <> NEW.instance_uid;
  RETURN NEW;
END
$$;

CREATE TRIGGER key_is_its_own BEFORE INSERT OR UPDATE OF element_instance_key ON verbworker.parked_token
FOR EACH ROW EXECUTE FUNCTION verbworker.displace_token();
