-- What is to be undone and what was: one record per completed step that declares a rollback, walked in reverse.
CREATE TABLE verbworker.compensation_record (
  record_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text NOT NULL,
  entry_id uuid NOT NULL,
  instance_uid uuid NOT NULL,
  -- The step: its place in the entry's chain, and its verb.
  step_seq bigint NOT NULL,
  verb text NOT NULL,
  undo text NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'undone', 'held')),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at timestamptz,
  UNIQUE (instance_uid, step_seq)
);
