-- name: note
-- A person who was just seen, with the name and the roles of now.
INSERT INTO verbworker.person AS person (tenant_id, person_id, issuer, subject, name, roles)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant_id, person_id) DO UPDATE
SET name = excluded.name, roles = excluded.roles, seen_at = clock_timestamp();

-- name: named
-- Everyone of a tenant with this name.
SELECT name, roles, issuer, subject
FROM verbworker.person
WHERE tenant_id = $1 AND name = $2
ORDER BY person_id;

-- name: of_issuer
-- Everyone of a tenant whom one issuer names.
SELECT person_id, name, roles
FROM verbworker.person
WHERE tenant_id = $1 AND issuer = $2
ORDER BY person_id;

-- name: change_roles
-- The roles of a person who was not seen, but has others now.
UPDATE verbworker.person
SET roles = $3
WHERE tenant_id = $1 AND person_id = $2;

-- name: names
-- The people of a tenant who may change something, to choose from; a key that is gone has no role.
SELECT name
FROM verbworker.person
WHERE tenant_id = $1 AND (roles IS NULL OR roles <> '{}' AND roles <> '{reader}')
GROUP BY name
ORDER BY max(seen_at) DESC
LIMIT 200;
