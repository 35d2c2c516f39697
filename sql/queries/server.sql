-- name: promises
-- What the server promises about a commit, as this session has it.
SELECT
  current_setting('fsync') AS fsync,
  current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('transaction_read_only') AS read_only,
  pg_is_in_recovery() AS is_standby;
