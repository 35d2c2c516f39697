-- Tokens, in the words of the execution model: what lives as rows of a view, what has ended as a history. A step still saves
-- one document per instance; the tokens that it ended are in the document until the instance ends or they are many.

-- How often a job was claimed since its token was last saved: a claim moves the token without writing the document.
ALTER TABLE verbworker_engine.job ADD COLUMN claims integer NOT NULL DEFAULT 0;

-- The tokens that were in the document when the instance ended, as JSON; empty for what an older worker ended.
ALTER TABLE verbworker_engine.ended_instance ADD COLUMN tokens bytea NOT NULL DEFAULT '';

-- Tokens that ended in an instance that goes on; moved out of its document when they are many, so that it stays small.
CREATE TABLE verbworker_engine.token_history (
  instance_key bigint NOT NULL,
  revision bigint NOT NULL,
  tokens bytea NOT NULL,
  ended_at timestamptz NOT NULL,
  PRIMARY KEY (instance_key, revision)
);
CREATE INDEX token_history_by_age ON verbworker_engine.token_history (ended_at);

-- As `finish_job` of 0035; the state of an instance that ends is its ended tokens, and a job made for a worker is claimed.
CREATE OR REPLACE FUNCTION verbworker_engine.finish_job(
  engine text, boot uuid, job bigint, claim bigint, uid uuid, base bytea, bytes bytea, digest bytea, seal text,
  flag_values text, keys text,
  instance bigint, at_revision bigint, new_variables bytea, new_state bytea, ends_as text,
  made_keys bigint[], made_types text[], made_elements text[], made_scopes bigint[], made_retries integer[],
  made_headers text[], made_workers text[], made_timeouts bigint[], gone_keys bigint[], owner text,
  OUT answer text, OUT at_ms bigint
) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  is_current boolean := verbworker.hold_claim(engine, boot, job, claim, uid, base);
  now_is timestamptz := verbworker_engine.now();
  tenant text;
BEGIN
  PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
  IF is_current IS NOT TRUE THEN
    answer := CASE WHEN is_current IS NULL THEN 'fenced' ELSE 'overtaken' END;
    RETURN;
  END IF;
  SELECT one.tenant_id INTO tenant
  FROM verbworker_engine.instance AS one
  WHERE one.instance_key = instance AND one.revision = at_revision
  FOR UPDATE;
  IF FOUND THEN
    PERFORM 1
    FROM verbworker_engine.job AS one
    WHERE one.job_key = job AND NOT one.is_held AND (one.worker IS NOT NULL OR one.due_at <= now_is)
    FOR UPDATE;
  END IF;
  IF NOT FOUND THEN
    answer := 'refused';
    RETURN;
  END IF;
  PERFORM verbworker.store_verdict(engine, job, uid, bytes, digest, seal, flag_values, keys, 'ok');
  IF ends_as = '' THEN
    UPDATE verbworker_engine.instance AS one
    SET revision = one.revision + 1, state = new_state, variables = coalesce(new_variables, one.variables)
    WHERE one.instance_key = instance;
  ELSE
    WITH removed AS (
      DELETE FROM verbworker_engine.instance AS one
      WHERE one.instance_key = instance
      RETURNING one.definition_key, one.tenant_id, coalesce(new_variables, one.variables) AS variables, one.created_at
    )
    INSERT INTO verbworker_engine.ended_instance (
      instance_key, definition_key, tenant_id, status, variables, created_at, ended_at, tokens
    )
    SELECT instance, definition_key, tenant_id, ends_as, variables, created_at, now_is, new_state
    FROM removed;
  END IF;
  DELETE FROM verbworker_engine.job AS one WHERE one.job_key = ANY (gone_keys);
  at_ms := floor(extract(epoch FROM now_is) * 1000)::bigint;
  IF cardinality(made_keys) > 0 THEN
    INSERT INTO verbworker_engine.job (
      job_key, instance_key, tenant_id, case_tenant, type, element_id, element_instance_key, retries, headers, due_at,
      worker, activated_ms, claims
    )
    SELECT
      made.job_key, instance, tenant, owner, made.type, made.element_id, made.element_instance_key, made.retries,
      made.headers, now_is + made.timeout_ms * interval '1 millisecond', made.worker,
      CASE WHEN made.worker IS NULL THEN 0 ELSE at_ms END, (made.worker IS NOT NULL)::integer
    FROM unnest(
      made_keys, made_types, made_elements, made_scopes, made_retries, made_headers, made_workers, made_timeouts
    ) AS made (job_key, type, element_id, element_instance_key, retries, headers, worker, timeout_ms);
  END IF;
  answer := 'done';
END
$$;

-- The tokens that live, one row each. The document says where a token is; the row of its job says who has claimed it, until
-- when, and whether the timer of its retry has fired. A user task waits for a person, whoever has its job.
CREATE VIEW verbworker_engine.token WITH (security_invoker = true) AS
WITH moment AS MATERIALIZED (
  SELECT verbworker_engine.now() AS now
)
SELECT
  one.id, one.instance_id, one.node_id,
  CASE
    WHEN standing.is_executing THEN 'executing'
    WHEN standing.is_resumed THEN 'ready'
    ELSE standing.status
  END AS status,
  one.mode,
  one.parallel_groups[cardinality(one.parallel_groups)] AS parallel_group_id,
  one.parallel_groups,
  one.version + CASE
    WHEN NOT standing.is_counted THEN 0
    ELSE standing.is_resumed::integer + 2 * job.claims - standing.is_executing::integer
  END AS version,
  to_timestamp(nullif(one.created_ms, 0) / 1000.0) AS created_at,
  to_timestamp(nullif(CASE WHEN standing.is_executing THEN job.activated_ms ELSE one.updated_ms END, 0) / 1000.0)
    AS updated_at,
  job.job_key
FROM (
  SELECT
    instance.instance_key AS instance_id, (token.value ->> 0)::bigint AS id, token.value ->> 1 AS node_id,
    token.life ->> 0 AS status,
    coalesce(token.life ->> 1, CASE WHEN token.value ->> 8 = '0' THEN 'forward' ELSE 'compensation' END) AS mode,
    coalesce((token.life ->> 2)::bigint, 1) AS version, (token.value ->> 10)::bigint AS created_ms,
    coalesce((token.life ->> 3)::bigint, (token.value ->> 10)::bigint) AS updated_ms,
    ARRAY(
      SELECT grouped.id::bigint
      FROM json_array_elements_text(token.life) WITH ORDINALITY AS grouped (id, place)
      WHERE grouped.place > 4
      ORDER BY grouped.place
    ) AS parallel_groups,
    (token.value ->> 5)::bigint AS job_key
  FROM verbworker_engine.instance
  CROSS JOIN LATERAL (SELECT convert_from(instance.state, 'UTF8')::json AS document OFFSET 0) AS stored
  CROSS JOIN LATERAL (
    SELECT listed.value, stored.document -> 'lives' -> (listed.place - 1)::integer AS life
    FROM json_array_elements(stored.document -> 'tokens') WITH ORDINALITY AS listed (value, place)
  ) AS token
  WHERE (token.value ->> 0)::bigint <> instance.instance_key
  UNION ALL
  SELECT
    instance.instance_key, (token.value ->> 0)::bigint, token.value ->> 1, token.value ->> 5, token.value ->> 6,
    (token.value ->> 7)::bigint, (token.value ->> 4)::bigint, (token.value ->> 8)::bigint,
    ARRAY(
      SELECT grouped.id::bigint
      FROM json_array_elements_text(token.value) WITH ORDINALITY AS grouped (id, place)
      WHERE grouped.place > 9
      ORDER BY grouped.place
    ),
    0
  FROM verbworker_engine.instance
  CROSS JOIN LATERAL (SELECT convert_from(instance.state, 'UTF8')::json AS document OFFSET 0) AS stored
  CROSS JOIN LATERAL json_array_elements(stored.document -> 'joining') AS token (value)
) AS one
CROSS JOIN moment
LEFT JOIN verbworker_engine.job ON job.job_key = one.job_key
CROSS JOIN LATERAL (
  SELECT
    coalesce(NOT job.is_held AND job.type <> 'io.camunda.zeebe:userTask', false) AS is_for_workers,
    -- A document of an older worker has no lives; what its tokens do shows in their jobs.
    coalesce(one.status, CASE
      WHEN job.is_held THEN 'failed'
      WHEN job.type <> 'io.camunda.zeebe:userTask' THEN 'ready'
      ELSE 'waiting'
    END) AS status
) AS known
CROSS JOIN LATERAL (
  SELECT
    known.status,
    known.is_for_workers AND known.status IN ('ready', 'waiting') AS is_counted,
    known.is_for_workers AND job.worker IS NOT NULL AND job.due_at > moment.now AS is_executing,
    known.is_for_workers AND known.status = 'waiting' AND (job.worker IS NOT NULL OR job.due_at <= moment.now)
      AS is_resumed
) AS standing;

-- The tokens that have ended: in documents, in the history of instances that go on, and in that of instances that ended.
CREATE VIEW verbworker_engine.ended_token WITH (security_invoker = true) AS
SELECT
  kept.instance_key + (token.value ->> 0)::bigint AS id, kept.instance_key AS instance_id, token.value ->> 1 AS node_id,
  (ARRAY['completed', 'failed', 'terminated'])[(token.value ->> 2)::integer % 3 + 1] AS status,
  CASE WHEN (token.value ->> 2)::integer < 3 THEN 'forward' ELSE 'compensation' END AS mode,
  grouped.parallel_groups[cardinality(grouped.parallel_groups)] AS parallel_group_id, grouped.parallel_groups,
  (token.value ->> 3)::bigint AS version,
  to_timestamp(((token.value ->> 4)::bigint - (token.value ->> 5)::bigint) / 1000.0) AS created_at,
  to_timestamp((token.value ->> 4)::bigint / 1000.0) AS updated_at
FROM (
  SELECT instance_key, convert_from(state, 'UTF8')::json -> 'ended' AS tokens
  FROM verbworker_engine.instance
  UNION ALL
  SELECT instance_key, convert_from(tokens, 'UTF8')::json
  FROM verbworker_engine.token_history
  UNION ALL
  SELECT instance_key, convert_from(tokens, 'UTF8')::json
  FROM verbworker_engine.ended_instance
  WHERE tokens <> ''
) AS kept
CROSS JOIN LATERAL json_array_elements(kept.tokens) AS token (value)
CROSS JOIN LATERAL (
  SELECT ARRAY(
    SELECT one.id::bigint
    FROM json_array_elements_text(token.value) WITH ORDINALITY AS one (id, place)
    WHERE one.place > 6
    ORDER BY one.place
  ) AS parallel_groups
) AS grouped;
