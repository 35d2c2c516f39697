-- Envelopes that another program of this database leaves, in the transaction that is their cause. `verbworker consume --from
-- postgres` takes them into the inbox, and deletes each when it is there.
CREATE TABLE verbworker.envelope_queue (
  queue_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text NOT NULL,
  -- The envelope as JSON text. Its tenant must be that of the row.
  envelope bytea NOT NULL,
  queued_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE verbworker.envelope_queue IS 'messages that wait for `verbworker consume --from postgres`';
