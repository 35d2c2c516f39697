-- name: bootstrap_schema
-- Everything verbworker owns lies in one schema, so that a grant or a dump has one name.
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

-- name: applied
SELECT name, checksum, applied_at
FROM verbworker.migration
ORDER BY name;

-- name: record
-- In the transaction of the migration itself: half an application cannot exist.
INSERT INTO verbworker.migration (name, checksum)
VALUES ($1, $2);
