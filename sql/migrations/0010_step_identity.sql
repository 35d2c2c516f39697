-- The step guard looks for other jobs of the same step among the frames of one instance. The column never changes, so
-- updates of a frame stay in its page.
CREATE INDEX job_frame_of_instance ON verbworker.job_frame (instance_uid) WHERE instance_uid IS NOT NULL;
