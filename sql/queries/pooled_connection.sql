-- name: serve
-- The tenant whose rows this session may see from now on, for a connection that served another one before.
SELECT set_config('verbworker.tenant', $1, false);
