-- What people decided: one decision per gate, kept before the engine hears of it.
CREATE TABLE verbworker.gate_decision (
  token_id uuid PRIMARY KEY REFERENCES verbworker.parked_token,
  tenant_id text NOT NULL,
  entry_id uuid NOT NULL,
  instance_uid uuid NOT NULL,
  gate text NOT NULL,
  decision text NOT NULL CHECK (decision <> ''),
  reason text NOT NULL,
  decided_by text NOT NULL,
  decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- What the engine answered; null until it did.
  acked_at timestamptz,
  answer text CHECK (answer IN ('completed', 'gone')),
  attempts integer NOT NULL DEFAULT 0,
  next_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX gate_decision_of_instance ON verbworker.gate_decision (instance_uid, decided_at);
CREATE INDEX gate_decision_due ON verbworker.gate_decision (next_at) WHERE acked_at IS NULL;
