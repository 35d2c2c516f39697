-- Which error codes a deployed model catches at each of its steps: only those are thrown to the engine. Rows from before
-- have none, and what they catch is read from their bytes.
ALTER TABLE verbworker.process_deployment ADD COLUMN catches jsonb;
