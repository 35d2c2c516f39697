-- The tables of the example: they belong to the application, not to verbworker.
CREATE TABLE IF NOT EXISTS kyc_case (
  case_id uuid PRIMARY KEY,
  tenant_id text NOT NULL,
  entity text NOT NULL CHECK (entity <> ''),
  case_type text NOT NULL,
  reviewer text,
  escalated_to text,
  escalated_at timestamptz,
  decision text CHECK (decision IN ('approved', 'rejected')),
  decided_by text,
  decided_at timestamptz,
  opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  closed_at timestamptz
);

CREATE TABLE IF NOT EXISTS kyc_document_request (
  case_id uuid NOT NULL REFERENCES kyc_case,
  kind text NOT NULL,
  -- Where the paper lies; its content is never in the case.
  reference text,
  requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  received_at timestamptz,
  withdrawn_at timestamptz,
  PRIMARY KEY (case_id, kind)
);
