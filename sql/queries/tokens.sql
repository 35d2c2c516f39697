-- name: name_engine
-- The first name that the engine of this database is called by stays its name.
INSERT INTO verbworker_engine.identity (engine_id)
VALUES ($1)
ON CONFLICT (is_only) DO NOTHING;

-- name: engine_name
-- What the engine of this database is called.
SELECT engine_id
FROM verbworker_engine.identity;

-- name: lock_deployments
-- One deployment at a time: versions are counted.
SELECT pg_advisory_xact_lock(hashtextextended('verbworker_engine.definition', 0));

-- name: latest
-- The newest version of a process, with the bytes it was made of.
SELECT definition_key, version, content
FROM verbworker_engine.definition
WHERE process_id = $1
ORDER BY version DESC
LIMIT 1;

-- name: deploy
-- The next version of a process.
INSERT INTO verbworker_engine.definition (process_id, version, resource, content)
VALUES ($1, $2, $3, $4)
RETURNING definition_key;

-- name: start_by
-- Only the newest version of a process is started by messages.
WITH old AS (
  DELETE FROM verbworker_engine.message_start
  WHERE process_id = $1 AND element_id <> ALL ($3::text[])
)
INSERT INTO verbworker_engine.message_start (process_id, element_id, message_name, definition_key)
SELECT $1, start.element_id, start.message_name, $2
FROM unnest($3::text[], $4::text[]) AS start (element_id, message_name)
ON CONFLICT (process_id, element_id) DO UPDATE SET
  message_name = excluded.message_name,
  definition_key = excluded.definition_key;

-- name: definition
-- One definition, to be compiled.
SELECT definition_key, process_id, version, resource, content
FROM verbworker_engine.definition
WHERE definition_key = $1;

-- name: open_by_key
-- A number for a new instance of one definition.
SELECT definition_key, process_id, version, nextval('verbworker_engine.instance_number') AS number,
  verbworker_engine.now() AS now
FROM verbworker_engine.definition
WHERE definition_key = $1;

-- name: open_by_version
-- A number for a new instance of one version of a process.
SELECT definition_key, process_id, version, nextval('verbworker_engine.instance_number') AS number,
  verbworker_engine.now() AS now
FROM verbworker_engine.definition
WHERE process_id = $1 AND version = $2;

-- name: open_latest
-- A number for a new instance of the newest version of a process.
SELECT definition_key, process_id, version, nextval('verbworker_engine.instance_number') AS number,
  verbworker_engine.now() AS now
FROM (
  SELECT definition_key, process_id, version
  FROM verbworker_engine.definition
  WHERE process_id = $1
  ORDER BY version DESC
  LIMIT 1
) AS latest;

-- name: load
-- Instances in their current state, without a lock: saving names the revision that was read here.
SELECT instance_key, definition_key, process_id, tenant_id, start_key, variables, state, revision,
  verbworker_engine.now() AS now
FROM verbworker_engine.instance
WHERE instance_key = ANY ($1::bigint[]);

-- name: load_locked
-- One instance, locked until this transaction ends.
SELECT instance_key, definition_key, process_id, tenant_id, start_key, variables, state, revision,
  verbworker_engine.now() AS now
FROM verbworker_engine.instance
WHERE instance_key = $1
FOR UPDATE;

-- name: save_plain
-- Everything that a batch of steps changed. A change whose instance moved on meanwhile, or whose job may not be ended
-- any more, leaves nothing behind and returns no row. An instance is locked before anything of its own, in key order.
-- Keys are named as arrays beside their joins: a plan made while a table was empty must never read the whole of it.
-- For steps that only end jobs and make new ones, as nearly all do.
WITH clock AS MATERIALIZED (
  SELECT now, floor(extract(epoch FROM now) * 1000)::bigint AS ms
  FROM verbworker_engine.now() AS now
),
item AS MATERIALIZED (
  SELECT *
  FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bytea[], $8::bytea[],
    $9::text[], $10::bigint[]
  ) AS change (
    instance_key, definition_key, process_id, tenant_id, start_key, revision, variables, state, ended, guard
  )
),
held AS MATERIALIZED (
  SELECT instance.instance_key
  FROM verbworker_engine.instance
  JOIN item ON item.instance_key = instance.instance_key
  WHERE instance.instance_key = ANY ($1::bigint[]) AND instance.revision = item.revision
  ORDER BY instance.instance_key
  FOR UPDATE OF instance
),
allowed AS MATERIALIZED (
  SELECT job.job_key
  FROM held
  JOIN item ON item.instance_key = held.instance_key
  JOIN verbworker_engine.job ON job.job_key = item.guard
  WHERE job.job_key = ANY ($10::bigint[]) AND NOT job.is_held
    AND (job.worker IS NOT NULL OR job.due_at <= (SELECT now FROM clock))
  FOR UPDATE OF job
),
ready AS MATERIALIZED (
  SELECT item.*
  FROM item
  WHERE item.revision = 0
    OR (
      EXISTS (SELECT 1 FROM held WHERE held.instance_key = item.instance_key)
      AND (item.guard = 0 OR EXISTS (SELECT 1 FROM allowed WHERE allowed.job_key = item.guard))
    )
),
updated AS (
  UPDATE verbworker_engine.instance
  SET revision = instance.revision + 1, state = ready.state,
    variables = coalesce(ready.variables, instance.variables)
  FROM ready
  WHERE instance.instance_key = ANY ($1::bigint[]) AND instance.instance_key = ready.instance_key
    AND ready.ended = '' AND ready.revision > 0
),
removed AS (
  DELETE FROM verbworker_engine.instance
  USING ready
  WHERE instance.instance_key = ANY ($1::bigint[]) AND instance.instance_key = ready.instance_key
    AND ready.ended <> '' AND ready.revision > 0
  RETURNING instance.instance_key, instance.definition_key, instance.tenant_id, ready.ended,
    coalesce(ready.variables, instance.variables) AS variables, instance.created_at, ready.state AS tokens
),
begun AS (
  INSERT INTO verbworker_engine.instance (
    instance_key, definition_key, process_id, tenant_id, start_key, variables, state, created_at
  )
  SELECT instance_key, definition_key, process_id, tenant_id, start_key, variables, state, (SELECT now FROM clock)
  FROM ready
  WHERE revision = 0 AND ended = ''
),
ended AS (
  INSERT INTO verbworker_engine.ended_instance (
    instance_key, definition_key, tenant_id, status, variables, created_at, ended_at, tokens
  )
  SELECT instance_key, definition_key, tenant_id, ended, variables, created_at, (SELECT now FROM clock), tokens
  FROM removed
  UNION ALL
  SELECT instance_key, definition_key, tenant_id, ended, variables, (SELECT now FROM clock), (SELECT now FROM clock),
    state
  FROM ready
  WHERE revision = 0 AND ended <> ''
),
job_made AS (
  INSERT INTO verbworker_engine.job (
    job_key, instance_key, tenant_id, case_tenant, type, element_id, element_instance_key, retries, headers, due_at,
    worker, activated_ms, claims
  )
  SELECT
    made.job_key, ready.instance_key, ready.tenant_id, made.case_tenant, made.type, made.element_id,
    made.element_instance_key, made.retries, made.headers,
    (SELECT now FROM clock) + made.timeout_ms * interval '1 millisecond', made.worker,
    CASE WHEN made.worker IS NULL THEN 0 ELSE (SELECT ms FROM clock) END, (made.worker IS NOT NULL)::integer
  FROM unnest(
    $11::bigint[], $12::text[], $13::text[], $14::bigint[], $15::integer[], $16::text[], $17::text[], $18::bigint[],
    $20::text[]
  ) AS made (job_key, type, element_id, element_instance_key, retries, headers, worker, timeout_ms, case_tenant)
  JOIN ready ON ready.instance_key = (made.job_key >> 20) << 20
),
job_gone AS (
  DELETE FROM verbworker_engine.job
  USING unnest($19::bigint[]) AS gone (job_key), ready
  WHERE job.job_key = ANY ($19::bigint[]) AND job.job_key = gone.job_key
    AND ready.instance_key = (gone.job_key >> 20) << 20
)
SELECT instance_key, (SELECT ms FROM clock) AS at_ms
FROM ready;

-- name: save
-- extends: save_plain
-- The same for steps that change anything else. It is a statement of its own because each part costs Postgres something
-- before its first row.
job_set AS (
  UPDATE verbworker_engine.job
  SET is_held = wanted.is_held, retries = coalesce(wanted.retries, job.retries), worker = NULL, claims = 0,
    due_at = (SELECT now FROM clock) + wanted.backoff_ms * interval '1 millisecond'
  FROM unnest($21::bigint[], $22::boolean[], $23::integer[], $39::bigint[])
    AS wanted (job_key, is_held, retries, backoff_ms), ready
  WHERE job.job_key = ANY ($21::bigint[]) AND job.job_key = wanted.job_key
    AND ready.instance_key = (wanted.job_key >> 20) << 20
),
timer_set AS (
  INSERT INTO verbworker_engine.timer (wait_key, instance_key, due_at)
  SELECT wanted.wait_key, ready.instance_key, wanted.due_at
  FROM unnest($24::bigint[], $25::timestamptz[]) AS wanted (wait_key, due_at)
  JOIN ready ON ready.instance_key = (wanted.wait_key >> 20) << 20
  ON CONFLICT (wait_key) DO UPDATE SET due_at = excluded.due_at
),
subscribed AS (
  INSERT INTO verbworker_engine.subscription (
    wait_key, instance_key, tenant_id, process_id, message_name, correlation_key, opened_at
  )
  SELECT
    wanted.wait_key, ready.instance_key, ready.tenant_id, ready.process_id, wanted.message_name,
    wanted.correlation_key, (SELECT now FROM clock)
  FROM unnest($26::bigint[], $27::text[], $28::text[]) AS wanted (wait_key, message_name, correlation_key)
  JOIN ready ON ready.instance_key = (wanted.wait_key >> 20) << 20
),
timer_closed AS (
  DELETE FROM verbworker_engine.timer
  USING unnest($29::bigint[]) AS closed (wait_key), ready
  WHERE timer.wait_key = ANY ($29::bigint[]) AND timer.wait_key = closed.wait_key
    AND ready.instance_key = (closed.wait_key >> 20) << 20
),
subscription_closed AS (
  DELETE FROM verbworker_engine.subscription
  USING unnest($29::bigint[]) AS closed (wait_key), ready
  WHERE subscription.wait_key = ANY ($29::bigint[]) AND subscription.wait_key = closed.wait_key
    AND ready.instance_key = (closed.wait_key >> 20) << 20
),
incident_made AS (
  INSERT INTO verbworker_engine.incident (
    incident_key, instance_key, job_key, element_id, kind, message, element_instance_key, raised_at
  )
  SELECT
    made.incident_key, ready.instance_key, nullif(made.job_key, 0), made.element_id, made.kind, made.message,
    made.element_instance_key, (SELECT now FROM clock)
  FROM unnest($30::bigint[], $31::bigint[], $32::text[], $33::text[], $34::text[], $35::bigint[])
    AS made (incident_key, job_key, element_id, kind, message, element_instance_key)
  JOIN ready ON ready.instance_key = (made.incident_key >> 20) << 20
),
incident_gone AS (
  DELETE FROM verbworker_engine.incident
  USING unnest($36::bigint[]) AS gone (incident_key), ready
  WHERE incident.incident_key = ANY ($36::bigint[]) AND incident.incident_key = gone.incident_key
    AND ready.instance_key = (gone.incident_key >> 20) << 20
),
message_taken AS (
  UPDATE verbworker_engine.message
  SET taken_by = message.taken_by || ready.process_id
  FROM unnest($37::bigint[], $38::bigint[]) AS taken (message_key, instance_key)
  JOIN ready ON ready.instance_key = taken.instance_key
  WHERE message.message_key = ANY ($37::bigint[]) AND message.message_key = taken.message_key
),
tokens_kept AS (
  INSERT INTO verbworker_engine.token_history (instance_key, revision, tokens, ended_at)
  SELECT ready.instance_key, ready.revision, kept.tokens, (SELECT now FROM clock)
  FROM unnest($40::bigint[], $41::bytea[]) AS kept (instance_key, tokens)
  JOIN ready ON ready.instance_key = kept.instance_key
)

-- name: activate
-- Hand out jobs that are due, the longest waiting first; rows that another worker is taking are passed over.
WITH clock AS MATERIALIZED (
  SELECT verbworker_engine.now() AS now
),
ask AS MATERIALIZED (
  SELECT *
  FROM unnest($1::integer[], $2::text[], $3::text[], $4::integer[], $5::bigint[], $6::text[])
    AS ask (number, type, tenant_id, most, timeout_ms, worker)
),
found AS MATERIALIZED (
  SELECT ask.number, ask.most, ask.timeout_ms, ask.worker, job.job_key, job.due_at
  FROM ask
  CROSS JOIN LATERAL (
    SELECT job.job_key, job.due_at
    FROM verbworker_engine.job
    WHERE job.type = ask.type AND job.tenant_id = ask.tenant_id AND NOT job.is_held
      AND job.due_at <= (SELECT now FROM clock)
    ORDER BY job.due_at
    LIMIT ask.most
    FOR UPDATE SKIP LOCKED
  ) AS job
),
chosen AS MATERIALIZED (
  SELECT number, timeout_ms, worker, job_key
  FROM (
    SELECT number, most, timeout_ms, worker, job_key, row_number() OVER (PARTITION BY number ORDER BY due_at) AS place
    FROM found
  ) AS placed
  WHERE place <= most
),
taken AS (
  UPDATE verbworker_engine.job
  SET worker = chosen.worker,
    due_at = (SELECT now FROM clock) + chosen.timeout_ms * interval '1 millisecond',
    -- Strictly growing per job, even if the clock goes back: it distinguishes deliveries.
    activated_ms = greatest(floor(extract(epoch FROM (SELECT now FROM clock)) * 1000)::bigint, job.activated_ms + 1),
    claims = job.claims + 1
  FROM chosen
  -- The array keeps a plan made while the table was empty from reading the whole of it later.
  WHERE job.job_key = ANY (ARRAY(SELECT job_key FROM chosen)) AND job.job_key = chosen.job_key
  RETURNING
    chosen.number, job.job_key, job.instance_key, job.tenant_id, job.case_tenant, job.type, job.element_id,
    job.element_instance_key, job.retries, job.headers, job.activated_ms
)
SELECT
  taken.number, taken.job_key, taken.instance_key, taken.tenant_id, taken.case_tenant, taken.type, taken.element_id,
  taken.element_instance_key, taken.retries, taken.headers, taken.activated_ms,
  instance.definition_key, instance.process_id, instance.start_key, instance.variables, instance.state,
  instance.revision
FROM taken
JOIN verbworker_engine.instance ON instance.instance_key = taken.instance_key
WHERE instance.instance_key = ANY (ARRAY(SELECT instance_key FROM taken))
ORDER BY taken.job_key;

-- name: activate_in_turn
-- The same while more is due than is asked for. The tenants of the cases are served in turn, each with an equal share,
-- beginning behind the one that was served last: `turn` walks from tenant to tenant by the index, once round or 64
-- tenants far. What is left goes to the longest waiting.
WITH RECURSIVE clock AS MATERIALIZED (
  SELECT verbworker_engine.now() AS now
),
ask AS MATERIALIZED (
  SELECT *
  FROM unnest($1::integer[], $2::text[], $3::text[], $4::integer[], $5::bigint[], $6::text[], $7::text[])
    AS ask (number, type, tenant_id, most, timeout_ms, worker, served)
),
turn AS (
  SELECT ask.number, ask.type, ask.tenant_id, ask.served, ask.served AS case_tenant, 0 AS place,
    false AS is_second_half
  FROM ask
  UNION ALL
  SELECT turn.number, turn.type, turn.tenant_id, turn.served, next.case_tenant, turn.place + 1, next.is_second_half
  FROM turn
  CROSS JOIN LATERAL (
    SELECT ahead.case_tenant, turn.is_second_half
    FROM (
      SELECT job.case_tenant
      FROM verbworker_engine.job
      WHERE job.type = turn.type AND job.tenant_id = turn.tenant_id AND NOT job.is_held
        AND job.case_tenant > turn.case_tenant
      ORDER BY job.case_tenant
      LIMIT 1
    ) AS ahead
    UNION ALL
    SELECT first.case_tenant, true
    FROM (
      SELECT job.case_tenant
      FROM verbworker_engine.job
      WHERE job.type = turn.type AND job.tenant_id = turn.tenant_id AND NOT job.is_held AND NOT turn.is_second_half
      ORDER BY job.case_tenant
      LIMIT 1
    ) AS first
    LIMIT 1
  ) AS next
  WHERE turn.place < 64 AND NOT (next.is_second_half AND next.case_tenant > turn.served)
),
tenant AS MATERIALIZED (
  SELECT turn.number, turn.type, turn.tenant_id, turn.case_tenant, turn.place,
    count(*) OVER (PARTITION BY turn.number) AS tenants
  FROM turn
  CROSS JOIN LATERAL (
    SELECT job.due_at
    FROM verbworker_engine.job
    WHERE job.type = turn.type AND job.tenant_id = turn.tenant_id AND job.case_tenant = turn.case_tenant
      AND NOT job.is_held AND job.due_at <= (SELECT now FROM clock)
    ORDER BY job.due_at
    LIMIT 1
  ) AS oldest
  WHERE turn.place > 0
),
found AS MATERIALIZED (
  SELECT ask.number, ask.most, ask.tenant_id, tenant.case_tenant, tenant.place, job.job_key, job.due_at
  FROM tenant
  JOIN ask ON ask.number = tenant.number AND ask.tenant_id = tenant.tenant_id
  CROSS JOIN LATERAL (
    SELECT job.job_key, job.due_at
    FROM verbworker_engine.job
    WHERE job.type = tenant.type AND job.tenant_id = tenant.tenant_id AND job.case_tenant = tenant.case_tenant
      AND NOT job.is_held AND job.due_at <= (SELECT now FROM clock)
    ORDER BY job.due_at
    LIMIT (ask.most + tenant.tenants - 1) / tenant.tenants
    FOR UPDATE SKIP LOCKED
  ) AS job
),
shared AS MATERIALIZED (
  SELECT ranked.number, ranked.job_key, ranked.due_at, ranked.tenant_id, ranked.place
  FROM (
    SELECT placed.*, row_number() OVER (PARTITION BY placed.number ORDER BY placed.rank, placed.place) AS position
    FROM (
      SELECT found.*, row_number() OVER (PARTITION BY number, tenant_id, place ORDER BY due_at) AS rank
      FROM found
    ) AS placed
  ) AS ranked
  WHERE ranked.position <= ranked.most
),
rest AS MATERIALIZED (
  SELECT ask.number, job.job_key, job.due_at
  FROM ask
  CROSS JOIN LATERAL (
    SELECT job.job_key, job.due_at
    FROM verbworker_engine.job
    WHERE job.type = ask.type AND job.tenant_id = ask.tenant_id AND NOT job.is_held
      AND job.due_at <= (SELECT now FROM clock) AND job.job_key <> ALL (ARRAY(SELECT job_key FROM found))
    ORDER BY job.due_at
    LIMIT ask.most - (SELECT count(*) FROM shared WHERE shared.number = ask.number)
    FOR UPDATE SKIP LOCKED
  ) AS job
),
chosen AS MATERIALIZED (
  SELECT picked.number, picked.job_key, ask.timeout_ms, ask.worker
  FROM (
    SELECT number, job_key
    FROM shared
    UNION ALL
    SELECT filled.number, filled.job_key
    FROM (
      SELECT rest.number, rest.job_key, row_number() OVER (PARTITION BY rest.number ORDER BY rest.due_at) AS position
      FROM rest
    ) AS filled
    JOIN (SELECT number, max(most) AS most FROM ask GROUP BY number) AS wanted ON wanted.number = filled.number
    WHERE filled.position <= wanted.most - (SELECT count(*) FROM shared WHERE shared.number = filled.number)
  ) AS picked
  -- An ask for several tenants of the engine has a line for each, all with the same words.
  JOIN (SELECT DISTINCT ON (number) number, timeout_ms, worker FROM ask ORDER BY number) AS ask
    ON ask.number = picked.number
),
last AS MATERIALIZED (
  SELECT DISTINCT ON (turn.number, turn.tenant_id) turn.number, turn.tenant_id, turn.case_tenant, turn.place = 64 OR (
    SELECT count(*) > 1
    FROM tenant
    WHERE tenant.number = ask.number
  ) AS has_several
  FROM turn
  JOIN ask ON ask.number = turn.number AND ask.tenant_id = turn.tenant_id
  WHERE turn.place <= CASE
    WHEN (SELECT count(*) FROM tenant WHERE tenant.number = ask.number) > ask.most THEN (
      SELECT max(shared.place)
      FROM shared
      WHERE shared.number = ask.number AND shared.tenant_id = ask.tenant_id
    )
    ELSE 64
  END
  ORDER BY turn.number, turn.tenant_id, turn.place DESC
),
taken AS (
  UPDATE verbworker_engine.job
  SET worker = chosen.worker,
    due_at = (SELECT now FROM clock) + chosen.timeout_ms * interval '1 millisecond',
    -- Strictly growing per job, even if the clock goes back: it distinguishes deliveries.
    activated_ms = greatest(floor(extract(epoch FROM (SELECT now FROM clock)) * 1000)::bigint, job.activated_ms + 1),
    claims = job.claims + 1
  FROM chosen
  -- The array keeps a plan made while the table was empty from reading the whole of it later.
  WHERE job.job_key = ANY (ARRAY(SELECT job_key FROM chosen)) AND job.job_key = chosen.job_key
  RETURNING
    chosen.number, job.job_key, job.instance_key, job.tenant_id, job.case_tenant, job.type, job.element_id,
    job.element_instance_key, job.retries, job.headers, job.activated_ms
)
SELECT
  taken.number, taken.job_key, taken.instance_key, taken.tenant_id, taken.case_tenant, taken.type, taken.element_id,
  taken.element_instance_key, taken.retries, taken.headers, taken.activated_ms,
  instance.definition_key, instance.process_id, instance.start_key, instance.variables, instance.state,
  instance.revision, last.case_tenant AS served, last.has_several
FROM taken
JOIN verbworker_engine.instance ON instance.instance_key = taken.instance_key
LEFT JOIN last ON last.number = taken.number AND last.tenant_id = taken.tenant_id
WHERE instance.instance_key = ANY (ARRAY(SELECT instance_key FROM taken))
ORDER BY taken.job_key;

-- name: due_types
-- Which of these types have a job to hand out.
SELECT DISTINCT wanted.type
FROM unnest($1::text[], $2::text[]) AS wanted (type, tenant_id)
WHERE EXISTS (
  SELECT 1
  FROM verbworker_engine.job
  WHERE job.type = wanted.type AND job.tenant_id = wanted.tenant_id AND NOT job.is_held
    AND job.due_at <= (SELECT verbworker_engine.now())
);

-- name: give_back
-- Jobs that were activated for a request that had gone. Another activation of the same job is left alone.
UPDATE verbworker_engine.job
SET worker = NULL, due_at = verbworker_engine.now()
WHERE job_key IN (
  SELECT job.job_key
  FROM verbworker_engine.job
  JOIN unnest($1::bigint[], $2::bigint[]) AS taken (job_key, activated_ms)
    ON taken.job_key = job.job_key AND taken.activated_ms = job.activated_ms
  WHERE NOT job.is_held
  FOR UPDATE OF job SKIP LOCKED
);

-- name: extend
-- Extend the timeout of an activated job; a job whose timeout is over has no owner.
UPDATE verbworker_engine.job
SET due_at = (SELECT verbworker_engine.now()) + $2::bigint * interval '1 millisecond'
WHERE job_key = $1 AND NOT is_held AND worker IS NOT NULL AND due_at > (SELECT verbworker_engine.now())
RETURNING job_key;

-- name: job
-- The state of a job, for the message of a refusal.
SELECT
  job.is_held, job.worker IS NOT NULL AND job.due_at > (SELECT verbworker_engine.now()) AS is_active,
  job.worker IS NULL AND job.due_at > (SELECT verbworker_engine.now()) AS is_resting,
  incident.incident_key, incident.kind
FROM verbworker_engine.job
LEFT JOIN verbworker_engine.incident ON incident.job_key = job.job_key
WHERE job.job_key = $1
ORDER BY incident.incident_key
LIMIT 1;

-- name: set_retries
-- New retries for a job, held or not.
UPDATE verbworker_engine.job
SET retries = $2
WHERE job_key = $1
RETURNING job_key;

-- name: incidents
-- What a person is needed for at some instances; the keys of each follow its own.
SELECT incident.incident_key, coalesce(incident.job_key, 0) AS job_key, incident.element_id,
  incident.element_instance_key, incident.kind, incident.message, incident.raised_at
FROM unnest($1::bigint[]) AS wanted (instance_key)
JOIN verbworker_engine.incident
  ON incident.incident_key > wanted.instance_key AND incident.incident_key < wanted.instance_key + (1 << 20)
ORDER BY incident.incident_key;

-- name: every_incident
-- The same for all instances.
SELECT incident_key, coalesce(job_key, 0) AS job_key, element_id, element_instance_key, kind, message, raised_at
FROM verbworker_engine.incident
ORDER BY incident_key;

-- name: is_there
-- Whether an instance has not ended.
SELECT EXISTS (
  SELECT 1
  FROM verbworker_engine.instance
  WHERE instance_key = $1
) AS is_there;

-- name: due_timers
-- Timers that are due, with their instances, locked until this transaction ends. Only the instance is
-- locked: its owner may wait for its timers, so no transaction may wait the other way round.
SELECT
  timer.wait_key, instance.instance_key, instance.definition_key, instance.process_id, instance.tenant_id,
  instance.start_key, instance.variables, instance.state, instance.revision, verbworker_engine.now() AS now
FROM verbworker_engine.timer
JOIN verbworker_engine.instance ON instance.instance_key = timer.instance_key
WHERE timer.due_at <= (SELECT verbworker_engine.now()) AND timer.wait_key <> ALL ($2::bigint[])
ORDER BY timer.due_at
LIMIT $1
FOR UPDATE OF instance SKIP LOCKED;

-- name: next_timer
-- How many seconds until the next timer is due.
SELECT extract(epoch FROM min(due_at) - (SELECT verbworker_engine.now()))::float8 AS seconds
FROM verbworker_engine.timer;

-- name: purge
-- Forget instances that ended long ago.
WITH old AS (
  SELECT instance_key
  FROM verbworker_engine.ended_instance
  WHERE ended_at < (SELECT verbworker_engine.now()) - $1::interval
  ORDER BY ended_at
  LIMIT $2
  FOR UPDATE SKIP LOCKED
)
DELETE FROM verbworker_engine.ended_instance
USING old
WHERE ended_instance.instance_key = old.instance_key
RETURNING ended_instance.instance_key;
