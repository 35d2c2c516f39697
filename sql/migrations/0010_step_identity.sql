-- The step guard looks for other jobs of the same step among the frames of one instance. The column never changes, so
-- updates of a frame stay in its page.
CREATE INDEX job_frame_of_instance ON verbworker.job_frame (instance_uid) WHERE instance_uid IS NOT NULL;

-- A broker that lost its last records hands a step out again under another job key. The frame of the new key repeats the
-- verdict of the frame named here; the step was told when it was done.
ALTER TABLE verbworker.job_frame ADD COLUMN repeats bigint;
ALTER TABLE verbworker.job_frame_archive ADD COLUMN repeats bigint;

DROP TRIGGER frame_is_told ON verbworker.job_frame;
CREATE TRIGGER frame_is_told AFTER UPDATE OF state ON verbworker.job_frame
FOR EACH ROW WHEN (
  NEW.instance_uid IS NOT NULL AND NEW.state <> OLD.state AND NEW.repeats IS NULL
  AND (NEW.state IN ('completed', 'incident') OR OLD.state = 'incident')
)
EXECUTE FUNCTION verbworker.tell_frame();

-- When a job of an instance was gone, and the instance with it. It may only have lost its key, so it is looked at again
-- before its entry is ended.
ALTER TABLE verbworker.workflow_instance ADD COLUMN missed_at timestamptz;

-- An entry that ends takes its instance with it, and the frames of jobs that waited for a retry or a person: the engine has
-- those no more. A frame that is being written is left to the sweep, so that an end never waits for a job.
CREATE OR REPLACE FUNCTION verbworker.tell_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE verbworker.workflow_instance SET status = NEW.status, ended_at = NEW.ended_at
  WHERE entry_id = NEW.entry_id AND ended_at IS NULL;
  UPDATE verbworker.job_frame SET acked_at = clock_timestamp(), ack_result = 'gone'
  WHERE (engine_id, job_key) IN (
    SELECT frame.engine_id, frame.job_key
    FROM verbworker.workflow_instance AS instance
    JOIN verbworker.job_frame AS frame ON frame.instance_uid = instance.instance_uid
    WHERE instance.entry_id = NEW.entry_id AND frame.state IN ('failed', 'incident') AND frame.acked_at IS NULL
    FOR UPDATE OF frame SKIP LOCKED
  );
  RETURN NULL;
END
$$;
