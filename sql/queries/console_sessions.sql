-- name: begin
-- A login begins a session, which lasts no longer than $8.
INSERT INTO verbworker.console_session (session_hash, tenant_id, name, issuer, subject, roles, credential, ends_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + $8::interval);

-- name: find
-- Sessions that are neither ended nor over by the limits of this console: $2 since the login, $3 since it was last used.
-- One that was used within $4 need not be marked as used again.
SELECT session_hash, tenant_id, name, issuer, subject, roles, credential,
  LEAST(ends_at, started_at + $2::interval) AS ends_at,
  seen_at < clock_timestamp() - $4::interval AS is_due
FROM verbworker.console_session
WHERE session_hash = ANY ($1::bytea[])
  AND ended_at IS NULL
  AND ends_at > clock_timestamp()
  AND started_at > clock_timestamp() - $2::interval
  AND seen_at > clock_timestamp() - $3::interval;

-- name: note_use
-- Its person did something. A session that was ended meanwhile stays ended.
UPDATE verbworker.console_session
SET seen_at = clock_timestamp()
WHERE session_hash = $1 AND ended_at IS NULL;

-- name: end
-- End sessions for good.
UPDATE verbworker.console_session
SET ended_at = clock_timestamp()
WHERE session_hash = ANY ($1::bytea[]) AND ended_at IS NULL;
