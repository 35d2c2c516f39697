-- What a worker did by a right to delete frames, or to write to their archive, are functions of the owner of the tables:
-- `sql/roles.sql` lets the worker's role execute them. They move frames that are acknowledged and no others.

-- Copy acknowledged frames into the archive. They stay in the hot table until `prune_frames`.
CREATE FUNCTION verbworker.archive_frames(after interval, most bigint) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  WITH copied AS (
    INSERT INTO verbworker.job_frame_archive
    SELECT clock_timestamp(), frame.*
    FROM verbworker.job_frame AS frame
    WHERE frame.acked_at < clock_timestamp() - after
      AND NOT EXISTS (
        SELECT 1
        FROM verbworker.job_frame_archive AS copy
        WHERE copy.engine_id = frame.engine_id AND copy.job_key = frame.job_key AND copy.acked_at = frame.acked_at
      )
    LIMIT most
    ON CONFLICT (engine_id, job_key, acked_at) DO NOTHING
    RETURNING 1
  )
  SELECT count(*) FROM copied
$$;

-- Take frames out of the hot table whose copy is as old as `settled`.
CREATE FUNCTION verbworker.prune_frames(settled interval, most bigint) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  WITH gone AS (
    DELETE FROM verbworker.job_frame
    WHERE ctid = ANY (ARRAY(
      SELECT frame.ctid
      FROM verbworker.job_frame AS frame
      JOIN verbworker.job_frame_archive AS copy
        ON copy.engine_id = frame.engine_id AND copy.job_key = frame.job_key AND copy.acked_at = frame.acked_at
      WHERE copy.archived_at < clock_timestamp() - settled
      LIMIT most
      FOR UPDATE OF frame SKIP LOCKED
    ))
    RETURNING 1
  )
  SELECT count(*) FROM gone
$$;

-- Move one acknowledged frame out of the way of a job that the engine gave its key to. Null if it changed meanwhile.
CREATE FUNCTION verbworker.displace_frame(engine text, job bigint, claim bigint) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  WITH moved AS (
    DELETE FROM verbworker.job_frame
    WHERE engine_id = engine AND job_key = job AND epoch = claim AND acked_at IS NOT NULL
    RETURNING *
  )
  INSERT INTO verbworker.job_frame_archive
  SELECT clock_timestamp(), moved.*
  FROM moved
  ON CONFLICT (engine_id, job_key, acked_at) DO NOTHING
  RETURNING job_key
$$;

-- Whether the session that asks serves all tenants: it says so, and is a worker's or the owner's. `session_user`, because
-- this is asked inside of functions that run as the owner.
CREATE FUNCTION verbworker.sees_every_tenant() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(current_setting('verbworker.tenant', true), '*') = '*' AND (
    pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = 'verbworker.runbook_entry'::regclass), 'USAGE')
    OR EXISTS (
      SELECT 1 FROM pg_roles WHERE rolname = 'verbworker_worker' AND pg_has_role(session_user, oid, 'USAGE'))
  )
$$;

-- Every instance that a message of this name and key could mean. The engine knows no tenants, so a key that two tenants use
-- is delivered to neither: whoever may see one tenant only must learn that another one has the key, and no more of it.
-- As the owner, because an index of jsonb serves no query behind a policy.
CREATE FUNCTION verbworker.find_addressees(engine text, key text, verbs text[], key_names text[])
RETURNS TABLE (instance_uid uuid, tenant_id text, entry_id uuid, has_ended boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  SELECT
    CASE WHEN seen.is_ours THEN instance.instance_uid ELSE '00000000-0000-0000-0000-000000000000' END,
    CASE WHEN seen.is_ours THEN instance.tenant_id ELSE '' END,
    CASE WHEN seen.is_ours THEN instance.entry_id ELSE '00000000-0000-0000-0000-000000000000' END,
    instance.ended_at IS NOT NULL
  FROM unnest(verbs, key_names) AS declared (verb, key_name)
  JOIN verbworker.workflow_instance AS instance ON instance.verb = declared.verb
    AND instance.correlation @> jsonb_build_object(declared.key_name, key)
  CROSS JOIN LATERAL (
    SELECT instance.tenant_id = current_setting('verbworker.tenant', true) OR verbworker.sees_every_tenant() AS is_ours
    OFFSET 0
  ) AS seen
  WHERE instance.engine_id = engine AND instance.correlation <> '{}'
  ORDER BY instance.ended_at NULLS FIRST, instance.created_at DESC
  LIMIT 20
$$;

REVOKE ALL ON FUNCTION
  verbworker.archive_frames(interval, bigint),
  verbworker.prune_frames(interval, bigint),
  verbworker.displace_frame(text, bigint, bigint),
  verbworker.find_addressees(text, text, text[], text[])
FROM PUBLIC;

-- ---- what is final, whoever writes ------------------------------------------------------------------------------------

-- A decision says what was decided, by whom, why and when; only erasure takes the words of the reason away.
CREATE FUNCTION verbworker.refuse_decision_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the decision at gate % is final', OLD.gate USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER decision_is_final BEFORE UPDATE ON verbworker.gate_decision
FOR EACH ROW WHEN (
  (NEW.token_id, NEW.tenant_id, NEW.entry_id, NEW.instance_uid, NEW.gate, NEW.decision, NEW.decided_by, NEW.decided_at)
    IS DISTINCT FROM
  (OLD.token_id, OLD.tenant_id, OLD.entry_id, OLD.instance_uid, OLD.gate, OLD.decision, OLD.decided_by, OLD.decided_at)
  OR NEW.decided_by_id IS DISTINCT FROM OLD.decided_by_id
  OR (NEW.reason <> OLD.reason AND NEW.reason <> '')
)
EXECUTE FUNCTION verbworker.refuse_decision_change();

-- An entry that has ended stays ended, with the outcome that it ended with; erasure leaves an empty one.
CREATE FUNCTION verbworker.refuse_end_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'entry % has ended, and how it ended is final', OLD.entry_id
    USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER end_is_final BEFORE UPDATE OF status, outcome, ended_at ON verbworker.runbook_entry
FOR EACH ROW WHEN (
  OLD.ended_at IS NOT NULL AND (
    NEW.status <> OLD.status OR NEW.ended_at IS NULL
    OR (NEW.outcome IS DISTINCT FROM OLD.outcome AND NEW.outcome IS DISTINCT FROM '{}'::bytea)
  )
)
EXECUTE FUNCTION verbworker.refuse_end_change();
