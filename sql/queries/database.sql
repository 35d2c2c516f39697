-- name: ping
-- One round trip: the database answers.
SELECT 1 AS alive;
