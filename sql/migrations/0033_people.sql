-- People by issuer and subject: two of one display name are two, and one who is renamed stays the same. The id is made of
-- issuer and subject; the name and the roles are those of the last login. Null: no roles are declared for this person.
CREATE TABLE verbworker.person (
  tenant_id text NOT NULL,
  person_id uuid NOT NULL,
  issuer text NOT NULL,
  subject text NOT NULL,
  name text NOT NULL CHECK (name <> ''),
  roles text[],
  first_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant_id, person_id),
  UNIQUE (tenant_id, issuer, subject)
);

CREATE INDEX person_by_name ON verbworker.person (tenant_id, name);

-- Who asked, claimed and decided, beside the display name; null for a name without an identity, such as a key's.
ALTER TABLE verbworker.runbook_entry ADD COLUMN asked_by_id uuid;
ALTER TABLE verbworker.parked_token ADD COLUMN claimed_by_id uuid;
ALTER TABLE verbworker.gate_decision ADD COLUMN decided_by_id uuid;
