-- Every claim looks for another job of its step. By instance alone it reads each frame that the instance has; by instance
-- and element it reads none, nearly always. Both columns stay as they are while a frame lives, or change with its claim.
DROP INDEX verbworker.job_frame_of_instance;
CREATE INDEX job_frame_of_step ON verbworker.job_frame (instance_uid, element_id) WHERE instance_uid IS NOT NULL;

-- These plan their statements anew at each call and find few rows: a compiler would take a hundred times as long as they.
ALTER FUNCTION verbworker.ensure_archive_month(timestamptz) SET jit = off;
ALTER FUNCTION verbworker.count_retired(text, timestamptz, bigint) SET jit = off;
ALTER FUNCTION verbworker.drop_retired(text, timestamptz, bigint) SET jit = off;
ALTER FUNCTION verbworker.drop_payloads(timestamptz, bigint) SET jit = off;
ALTER FUNCTION verbworker.drop_archived_frames(timestamptz, bigint) SET jit = off;
ALTER FUNCTION verbworker.drop_entries(uuid[], bytea[], timestamptz) SET jit = off;
