-- name: entry
-- Entries of a tenant whose id is in a range: those with one prefix. Two are enough to know that it is not unique.
SELECT entry_id AS id
FROM verbworker.runbook_entry
WHERE tenant_id = $1 AND entry_id BETWEEN $2 AND $3
ORDER BY entry_id
LIMIT 2;

-- name: gate
-- The same for the tokens of gates, open or closed.
SELECT token_id AS id
FROM verbworker.parked_token
WHERE tenant_id = $1 AND kind = 'human_gate' AND token_id BETWEEN $2 AND $3
ORDER BY token_id
LIMIT 2;

-- name: incident
-- The same for the tokens of incidents, open or closed.
SELECT token_id AS id
FROM verbworker.parked_token
WHERE tenant_id = $1 AND kind = 'incident' AND token_id BETWEEN $2 AND $3
ORDER BY token_id
LIMIT 2;

-- name: plain_incident
-- The same for incidents of plain processes, which belong to no tenant.
SELECT incident_id AS id
FROM verbworker.plain_incident
WHERE $1::text IS NOT NULL AND incident_id BETWEEN $2 AND $3
ORDER BY incident_id
LIMIT 2;

-- name: letter
-- The same for dead letters.
SELECT letter_id AS id
FROM verbworker.dead_letter
WHERE tenant_id = $1 AND letter_id BETWEEN $2 AND $3
ORDER BY letter_id
LIMIT 2;
