-- name: were_applied
-- Whether this database was given the roles of `roles.sql`, and the server still has them.
SELECT relrowsecurity AND EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'verbworker_worker') AS applied
FROM pg_class
WHERE oid = to_regclass('verbworker.runbook_entry');

-- name: states
-- The roles, and the logins that are members of each.
SELECT named.role, held.oid IS NOT NULL AS exists, ARRAY(
  SELECT login.rolname::text
  FROM pg_auth_members AS member
  JOIN pg_roles AS login ON login.oid = member.member
  WHERE member.roleid = held.oid
  ORDER BY login.rolname
) AS members
FROM unnest(ARRAY['verbworker_worker', 'verbworker_console', 'verbworker_ingress', 'verbworker_reader'])
  WITH ORDINALITY AS named (role, place)
LEFT JOIN pg_roles AS held ON held.rolname = named.role
ORDER BY named.place;
