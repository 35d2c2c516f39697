-- Sessions of the console. The browser has an id, signed; here is only its hash, so that reading this table logs nobody in.
-- A session ends when its person logs out, when its credential is gone, or when one of its limits is over; it stays ended.
CREATE TABLE verbworker.console_session (
  session_hash bytea PRIMARY KEY CHECK (octet_length(session_hash) = 32),
  tenant_id text NOT NULL,
  name text NOT NULL,
  -- Who it is under any name; null for a key.
  issuer text,
  subject text,
  -- The roles at the login; null if none are declared.
  roles text[],
  -- Which key or issuer it came from: a digest of it with its holder, tenant and roles, so that any change there ends the
  -- session.
  credential bytea NOT NULL CHECK (octet_length(credential) = 32),
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- When its person last did something; what a page loads by itself does not count.
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- The absolute limit that was set when it began. A shorter one that is set later counts too.
  ends_at timestamptz NOT NULL,
  ended_at timestamptz
);

CREATE INDEX console_session_over ON verbworker.console_session ((LEAST(ended_at, ends_at)));

-- What is over can be deleted: nothing asks for it again.
CREATE VIEW verbworker.retired_console_session WITH (security_invoker = true) AS
SELECT session.ctid AS place, LEAST(session.ended_at, session.ends_at) AS since
FROM verbworker.console_session AS session
WHERE LEAST(session.ended_at, session.ends_at) < statement_timestamp();
