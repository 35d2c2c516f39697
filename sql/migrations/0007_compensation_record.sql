-- What is to be undone and what was: one record per completed step that declares a rollback, walked in reverse.
-- Each record is the job of one frame, whose engine is called `<engine>/undo`.
CREATE TABLE verbworker.compensation_record (
  record_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text NOT NULL,
  entry_id uuid NOT NULL,
  instance_uid uuid NOT NULL,
  -- The step: its place in the entry's chain, and its verb.
  step_seq bigint NOT NULL,
  verb text NOT NULL,
  undo text NOT NULL,
  -- Where the frame stands in the model: at the task that planned it, whichever task walks it later.
  element_id text NOT NULL,
  element_instance_key bigint NOT NULL,
  -- The engine's job that walks it, and so hears when it stops.
  job_key bigint NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'undone', 'held')),
  -- The flags and correlation keys its undo set; the engine gets them when the whole walk is done.
  variables jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at timestamptz,
  UNIQUE (instance_uid, step_seq),
  CHECK ((ended_at IS NOT NULL) = (state = 'undone'))
);

-- A record hears of its frame in the frame's own commit: there is no moment between the undo and the knowledge of it,
-- and nobody else to acknowledge it.
CREATE FUNCTION verbworker.tell_undo() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE verbworker.compensation_record AS record SET
    state = CASE NEW.state WHEN 'completed' THEN 'undone' WHEN 'incident' THEN 'held' ELSE 'pending' END,
    variables = coalesce(NEW.flags, '{}') || coalesce(NEW.correlation, '{}'),
    ended_at = CASE NEW.state WHEN 'completed' THEN clock_timestamp() END
  WHERE record.record_id = NEW.job_key AND record.state <> 'undone';
  IF NEW.state = 'completed' THEN
    NEW.acked_at := clock_timestamp();
    NEW.ack_result := 'undone';
  END IF;
  RETURN NEW;
END
$$;

CREATE TRIGGER undo_is_told BEFORE UPDATE OF state ON verbworker.job_frame
FOR EACH ROW WHEN (NEW.state <> OLD.state AND NEW.engine_id LIKE '%/undo')
EXECUTE FUNCTION verbworker.tell_undo();
