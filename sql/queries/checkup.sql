-- name: server
-- Who answers, and as whom we speak to it.
SELECT
  current_setting('server_version_num')::integer AS number,
  current_setting('server_version') AS version,
  current_user::text AS role;

-- name: own_role
-- What our role is beyond its grants, and of which of the roles of `roles.sql` it is a member.
SELECT
  own.rolsuper AS is_superuser,
  pg_has_role(own.oid, owned.relowner, 'USAGE') AS is_owner,
  own.rolbypassrls AS passes_policies,
  ARRAY(
    SELECT named.rolname::text
    FROM pg_roles AS named
    WHERE named.rolname IN ('verbworker_worker', 'verbworker_console', 'verbworker_ingress', 'verbworker_reader')
      AND owned.relrowsecurity AND pg_has_role(own.oid, named.oid, 'USAGE')
    ORDER BY named.rolname
  ) AS roles
FROM pg_roles AS own
JOIN pg_class AS owned ON owned.oid = 'verbworker.runbook_entry'::regclass
WHERE own.rolname = current_user;

-- name: clock
-- The database's clock, which every lease goes by.
SELECT clock_timestamp() AS now;

-- name: engine_clock
-- How far the embedded engine's clock is from the database's.
SELECT extract(epoch FROM verbworker_engine.now() - clock_timestamp())::float8 AS ahead;

-- name: closed_schemas
-- The schemas that this role may not look into.
SELECT name
FROM unnest($1::text[]) AS name
WHERE NOT has_schema_privilege(name, 'USAGE');

-- name: missing_privileges
-- What this role must do to a table or a sequence and may not. It may UPDATE a table if it may some columns of it.
SELECT needed.relation, needed.privilege
FROM unnest($1::text[], $2::text[]) AS needed (relation, privilege)
WHERE NOT CASE needed.privilege
  WHEN 'USAGE' THEN has_sequence_privilege(needed.relation, needed.privilege)
  WHEN 'UPDATE' THEN has_any_column_privilege(needed.relation, needed.privilege)
  ELSE has_table_privilege(needed.relation, needed.privilege)
END
ORDER BY needed.relation, needed.privilege;

-- name: missing_functions
-- What this role must execute and may not.
SELECT name
FROM unnest($1::text[]) AS name
WHERE NOT has_function_privilege(name, 'EXECUTE')
ORDER BY name;

-- name: pinned
-- The definitions that running instances are made of, besides the newest ones.
SELECT DISTINCT definition_key
FROM verbworker.workflow_instance
WHERE engine_id = $1 AND ended_at IS NULL AND definition_key IS NOT NULL;

-- name: running
-- Instances that the engine must know, for a while already.
SELECT instance_key
FROM verbworker.workflow_instance
WHERE engine_id = $1 AND ended_at IS NULL AND instance_key IS NOT NULL AND created_at < clock_timestamp() - $3::interval
ORDER BY created_at
LIMIT $2;

-- name: gates
-- How many gates wait for a person, how many of them for long, and the longest wait.
SELECT
  count(*) AS number,
  count(*) FILTER (WHERE opened_at < clock_timestamp() - $2::interval) AS late,
  clock_timestamp() - min(opened_at) AS longest,
  NULL::text AS word
FROM verbworker.parked_token
WHERE engine_id = $1 AND kind = 'human_gate' AND closed_at IS NULL;

-- name: held
-- How many jobs are held for a person, those of undos too.
SELECT
  count(*) AS number,
  count(*) FILTER (WHERE coalesce(popped_at, pushed_at) < clock_timestamp() - $2::interval) AS late,
  clock_timestamp() - min(coalesce(popped_at, pushed_at)) AS longest,
  (array_agg(verb || ' ' || coalesce(fail_code, '') ORDER BY coalesce(popped_at, pushed_at)))[1] AS word
FROM verbworker.job_frame
WHERE engine_id IN ($1, $1 || '/undo') AND state = 'incident';

-- name: overtime
-- How many verbs still run after their deadline, as their workers reported.
SELECT
  count(*) AS number, count(*) FILTER (WHERE event.at < clock_timestamp() - $2::interval) AS late,
  clock_timestamp() - min(event.at) AS longest, (array_agg(frame.verb ORDER BY event.at))[1] AS word
FROM verbworker.job_frame AS frame
JOIN verbworker.frame_event AS event
  ON event.engine_id = frame.engine_id AND event.job_key = frame.job_key AND event.epoch = frame.epoch
WHERE frame.engine_id IN ($1, $1 || '/undo') AND frame.state = 'started' AND event.kind = 'over time';

-- name: dispatches
-- How many starts the engine has not accepted yet, and its answer for the oldest.
SELECT
  count(*) AS number,
  count(*) FILTER (WHERE created_at < clock_timestamp() - $2::interval) AS late,
  clock_timestamp() - min(created_at) AS longest,
  (array_agg(last_error ORDER BY created_at))[1] AS word
FROM verbworker.dispatch
WHERE engine_id = $1 AND done_at IS NULL;

-- name: decisions
-- How many decisions of people the engine does not have yet, and its answer to the oldest that it refused.
SELECT
  count(*) AS number,
  count(*) FILTER (WHERE decision.decided_at < clock_timestamp() - $2::interval) AS late,
  clock_timestamp() - min(decision.decided_at) AS longest,
  (array_agg(decision.last_error ORDER BY decision.decided_at) FILTER (WHERE decision.last_error IS NOT NULL))[1] AS word
FROM verbworker.gate_decision AS decision
JOIN verbworker.parked_token AS token ON token.token_id = decision.token_id
WHERE token.engine_id = $1 AND decision.acked_at IS NULL;

-- name: letters
-- How many messages could not be delivered and wait for a person, in all tenants.
SELECT
  count(*) AS number,
  count(*) FILTER (WHERE letter.created_at < clock_timestamp() - $2::interval) AS late,
  clock_timestamp() - min(letter.created_at) AS longest,
  (array_agg(letter.code ORDER BY letter.created_at))[1] AS word
FROM verbworker.dead_letter AS letter
LEFT JOIN verbworker.inbox_message AS message
  ON message.tenant_id = letter.tenant_id AND message.message_id = letter.message_id
WHERE letter.state = 'open' AND coalesce(message.engine_id, $1) = $1;

-- name: messages
-- How many messages wait to be delivered, and the error of the last attempt for the oldest.
SELECT
  count(*) AS number,
  count(*) FILTER (WHERE received_at < clock_timestamp() - $2::interval) AS late,
  clock_timestamp() - min(received_at) AS longest,
  (array_agg(last_error ORDER BY received_at))[1] AS word
FROM verbworker.inbox_message
WHERE engine_id = $1 AND state = 'received';

-- name: workers
-- How many workers of an engine were seen lately, the one seen last and how long ago, and how many cases are open there.
-- One that was started by an older version may serve any engine.
SELECT
  count(*) FILTER (WHERE ended_at IS NULL AND seen_at > clock_timestamp() - $2::interval) AS alive,
  (array_agg(name || ' on ' || host ORDER BY seen_at DESC))[1] AS last_name,
  clock_timestamp() - max(coalesce(ended_at, seen_at)) AS last_seen,
  (
    SELECT count(*)
    FROM verbworker.workflow_instance AS instance
    WHERE instance.engine_id = $1 AND instance.ended_at IS NULL
  ) AS open_cases
FROM verbworker.worker_boot
WHERE coalesce(engine_id, $1) = $1;

-- name: leases
-- How many of the workers that run take jobs under the engine's leases, how many do not, and one of each by name.
SELECT
  count(*) FILTER (WHERE leases) AS leasing,
  count(*) FILTER (WHERE NOT leases) AS plain,
  min(name || ' on ' || host) FILTER (WHERE leases) AS leasing_name,
  min(name || ' on ' || host) FILTER (WHERE NOT leases) AS plain_name
FROM verbworker.worker_boot
WHERE coalesce(engine_id, $1) = $1 AND ended_at IS NULL AND seen_at > clock_timestamp() - $2::interval;
