-- What people decided: one decision per gate, kept before the engine hears of it.
CREATE TABLE verbworker.gate_decision (
  token_id uuid PRIMARY KEY REFERENCES verbworker.parked_token,
  tenant_id text NOT NULL,
  entry_id uuid NOT NULL,
  instance_uid uuid NOT NULL,
  gate text NOT NULL,
  decision text NOT NULL CHECK (decision <> ''),
  reason text NOT NULL,
  decided_by text NOT NULL CHECK (decided_by <> ''),
  decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- What the engine answered; null until it did. Gone: the task had ended before. Unsure: that, or an answer was lost.
  acked_at timestamptz,
  answer text CHECK (answer IN ('completed', 'gone', 'unsure')),
  -- How often the engine was told. Counted before it is told, so that a lost answer is never taken for another's doing.
  attempts integer NOT NULL DEFAULT 0,
  next_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((acked_at IS NULL) = (answer IS NULL))
);

CREATE INDEX gate_decision_of_instance ON verbworker.gate_decision (instance_uid, decided_at);
CREATE INDEX gate_decision_due ON verbworker.gate_decision (next_at) WHERE acked_at IS NULL;

-- Since when somebody has a gate in hand.
ALTER TABLE verbworker.parked_token ADD COLUMN claimed_at timestamptz;
ALTER TABLE verbworker.parked_token ADD CHECK ((claimed_by IS NULL) = (claimed_at IS NULL));

CREATE INDEX parked_token_gates ON verbworker.parked_token (tenant_id, opened_at) WHERE kind = 'human_gate';
CREATE INDEX parked_token_silent ON verbworker.parked_token (engine_id, seen_at)
WHERE kind = 'human_gate' AND closed_at IS NULL;
