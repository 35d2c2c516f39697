-- The example's own table: it belongs to the application, not to verbworker.
CREATE TABLE IF NOT EXISTS document_request (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  client text NOT NULL,
  document text NOT NULL,
  reminders integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
