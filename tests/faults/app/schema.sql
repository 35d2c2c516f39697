-- What transactional verbs did. No key keeps a second row out: the oracle counts them.
CREATE TABLE parcel_effect (
  entry_id uuid NOT NULL,
  step text NOT NULL,
  idempotency_key text NOT NULL,
  run_id uuid NOT NULL,
  pid integer NOT NULL,
  detail jsonb NOT NULL DEFAULT '{}',
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX parcel_effect_of_entry ON parcel_effect (entry_id);
