-- Erasure: what a case holds about a person is blanked after its end, and its record can still be verified.
--
-- Digests stay: of payloads, of results and of every event. An event that was erased keeps its hash, so the chain goes on
-- from it. An event `Erased` behind it names that hash and the hash of what is left: with these two the chain is verified,
-- and what is left cannot be changed either. `verbworker erase` does it, in the owner's role: workers may not.

-- An event may lose parts of its detail when its entry has ended, and nothing else. `once` may name a message.
CREATE OR REPLACE FUNCTION verbworker.refuse_event_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND TG_LEVEL = 'ROW' THEN
    IF NEW.detail <@ OLD.detail AND NEW.once IN (OLD.once, 'erased:' || OLD.seq) AND OLD.kind <> 'Erased'
      AND (NEW.entry_id, NEW.seq, NEW.at, NEW.kind, NEW.status, NEW.hash)
        = (OLD.entry_id, OLD.seq, OLD.at, OLD.kind, OLD.status, OLD.hash)
      AND EXISTS (
        SELECT 1 FROM verbworker.runbook_entry AS entry
        WHERE entry.entry_id = OLD.entry_id AND entry.ended_at IS NOT NULL)
    THEN
      RETURN NEW;
    END IF;
  END IF;
  RAISE EXCEPTION 'runbook events are appended and never changed'
    USING ERRCODE = 'integrity_constraint_violation';
END
$$;

DROP TRIGGER events_are_final ON verbworker.runbook_event;
CREATE TRIGGER events_are_final BEFORE UPDATE ON verbworker.runbook_event
FOR EACH ROW EXECUTE FUNCTION verbworker.refuse_event_change();
CREATE TRIGGER events_are_not_truncated BEFORE TRUNCATE ON verbworker.runbook_event
FOR EACH STATEMENT EXECUTE FUNCTION verbworker.refuse_event_change();

-- A settled frame of an ended instance may lose its content, never its hash, its seal or its outcome.
CREATE FUNCTION verbworker.is_erasure(old_frame verbworker.job_frame, new_frame verbworker.job_frame) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT new_frame.output IS NULL AND new_frame.flags IS NULL AND new_frame.correlation IS NULL
    AND old_frame.acked_at IS NOT NULL
    AND (new_frame.state, new_frame.epoch, new_frame.outcome, new_frame.output_hash, new_frame.output_seal,
      new_frame.error_code) IS NOT DISTINCT FROM (old_frame.state, old_frame.epoch, old_frame.outcome,
      old_frame.output_hash, old_frame.output_seal, old_frame.error_code)
    AND EXISTS (
      SELECT 1 FROM verbworker.workflow_instance AS instance
      WHERE instance.instance_uid = old_frame.instance_uid AND instance.ended_at IS NOT NULL)
$$;

CREATE OR REPLACE FUNCTION verbworker.refuse_frame_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF verbworker.is_erasure(OLD, NEW) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'frame % of engine % is completed or fenced and cannot change', OLD.job_key, OLD.engine_id
    USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE OR REPLACE FUNCTION verbworker.refuse_frame_content() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF verbworker.is_erasure(OLD, NEW) THEN
      RETURN NEW;
    END IF;
  END IF;
  RAISE EXCEPTION 'new row for "job_frame" violates check constraint "frame_is_true"' USING ERRCODE = 'check_violation';
END
$$;
