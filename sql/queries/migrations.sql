-- name: be_patient
-- How long to wait for a lock, the migrators' own among them.
SELECT set_config('lock_timeout', $1, false);

-- name: take_turn
-- One migrator at a time; the lock goes with the connection.
SELECT pg_advisory_lock($1);

-- name: bootstrap_schema
-- Everything verbworker owns is in one schema, so that a grant or a dump has one name.
CREATE SCHEMA IF NOT EXISTS verbworker;

-- name: bootstrap_table
-- What was applied, and the checksum of what was applied.
CREATE TABLE IF NOT EXISTS verbworker.migration (
  name text PRIMARY KEY,
  checksum bytea NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- name: is_bootstrapped
-- A database that was never migrated has no table to ask.
SELECT to_regclass('verbworker.migration') IS NOT NULL AS bootstrapped;

-- name: stranger
-- This login, if somebody else owns the schema: it may not migrate, and an error of Postgres names neither of them.
SELECT current_user::text AS login
FROM pg_class
WHERE oid = to_regclass('verbworker.migration') AND NOT pg_has_role(relowner, 'USAGE');

-- name: applied
-- What this database has, to be compared with what is shipped.
SELECT name, checksum, applied_at
FROM verbworker.migration
ORDER BY name;

-- name: stage
-- Hand a migration over to `apply`, which takes no parameters.
SELECT
  set_config('verbworker.migration_name', $1, false),
  set_config('verbworker.migration_text', $2, false),
  set_config('verbworker.migration_checksum', $3, false);

-- name: apply
-- The migration and its record are one statement, so half an application cannot exist: Postgres itself refuses
-- a migration that tries to commit.
DO $$
BEGIN
  EXECUTE current_setting('verbworker.migration_text');
  INSERT INTO verbworker.migration (name, checksum)
  VALUES (
    current_setting('verbworker.migration_name'),
    decode(current_setting('verbworker.migration_checksum'), 'hex')
  );
END
$$;
