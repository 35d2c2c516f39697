-- name: purge
-- Forget tokens that ended long ago in instances that were running then.
WITH old AS (
  SELECT instance_key, revision
  FROM verbworker_engine.token_history
  WHERE ended_at < (SELECT verbworker_engine.now()) - $1::interval
  ORDER BY ended_at
  LIMIT $2
  FOR UPDATE SKIP LOCKED
)
DELETE FROM verbworker_engine.token_history
USING old
WHERE token_history.instance_key = old.instance_key AND token_history.revision = old.revision
RETURNING token_history.instance_key;

-- name: live
-- The tokens of one instance that live, oldest first.
SELECT id, instance_id, node_id, status, mode, parallel_group_id, parallel_groups, version, created_at, updated_at
FROM verbworker_engine.token
WHERE instance_id = $1
ORDER BY id;

-- name: ended
-- The tokens of one instance that have ended, oldest first.
SELECT id, instance_id, node_id, status, mode, parallel_group_id, parallel_groups, version, created_at, updated_at
FROM verbworker_engine.ended_token
WHERE instance_id = $1
ORDER BY id;
