-- name: ping
-- One round trip: the database answers.
SELECT 1 AS alive;

-- name: notify
-- A hint for those who listen; nobody relies on it.
SELECT pg_notify($1, $2);
