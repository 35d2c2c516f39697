-- Jobs of no case belong to no tenant: those of plain processes, and those whose case nobody knows. A policy has to tell
-- the latter from the jobs of another tenant's case, which it does not see; so the owner looks.
CREATE FUNCTION verbworker.has_case(instance uuid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  SELECT EXISTS (SELECT 1 FROM verbworker.workflow_instance AS known WHERE known.instance_uid = instance)
$$;

REVOKE ALL ON FUNCTION verbworker.has_case(uuid) FROM PUBLIC;
