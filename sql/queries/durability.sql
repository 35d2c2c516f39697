-- name: promises
-- What the server promises about a commit, as this session has it.
SELECT
  current_setting('fsync') AS fsync,
  current_setting('synchronous_commit') AS synchronous_commit,
  pg_is_in_recovery() AS is_standby,
  current_setting('transaction_read_only') = 'on' AS is_read_only;
