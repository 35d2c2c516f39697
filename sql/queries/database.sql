-- name: ping
-- One round trip: the database answers.
SELECT 1 AS alive;

-- name: notify
-- A hint for listeners; correctness never depends on it.
SELECT pg_notify($1, $2);

-- name: keyed
-- Until the transaction ends: plans are made once and look rows up one by one, as on the pools that run only our own.
-- No user code runs before the commit, so an idle session is frozen and must not keep its locks.
SELECT
  set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
  set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true),
  set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
  set_config('idle_in_transaction_session_timeout', '5s', true);
