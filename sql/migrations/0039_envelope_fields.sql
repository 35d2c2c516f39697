-- Two more fields of an envelope: the id of the case that it is for, and whether its payload is bytes that only a verb can
-- read. Both have a constant default, so no row is rewritten.
ALTER TABLE verbworker.inbox_message
  ADD COLUMN workflow_id text,
  ADD COLUMN is_opaque boolean NOT NULL DEFAULT false;
