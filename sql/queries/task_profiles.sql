-- name: find
-- The terms that a job names.
SELECT ir::text AS ir, policies::text AS policies
FROM verbworker.process_terms
WHERE digest = $1;

-- name: definition_of
-- Which definition a version of a process was, when it was deployed with a profile.
SELECT terms.definition_id
FROM verbworker.process_deployment AS deployment
JOIN verbworker.process_terms AS terms ON terms.digest = deployment.terms_digest
WHERE deployment.engine_id = $1 AND deployment.definition_key = $2;

-- name: visit
-- The number of a visit to a step: the one it has, or the next. No row if another transaction took that number
-- at the same moment; the next attempt gets another.
WITH known AS (
  SELECT visit
  FROM verbworker.step_visit
  WHERE engine_id = $1 AND process_instance_key = $2 AND element_id = $3 AND element_instance_key = $4
),
added AS (
  INSERT INTO verbworker.step_visit (engine_id, process_instance_key, element_id, element_instance_key, visit)
  SELECT $1, $2, $3, $4, coalesce(max(earlier.visit), 0) + 1
  FROM (
    SELECT visit
    FROM verbworker.step_visit
    WHERE engine_id = $1 AND process_instance_key = $2 AND element_id = $3
  ) AS earlier
  HAVING NOT EXISTS (SELECT 1 FROM known)
  ON CONFLICT DO NOTHING
  RETURNING visit
)
SELECT visit FROM known
UNION ALL
SELECT visit FROM added;

-- name: forget_visits
-- Drop the counts of instances that have ended: their steps are not visited again. Visits under a key that no
-- instance has are those of one that was started twice; after a day no instance is still to be pinned to that key.
WITH gone AS (
  DELETE FROM verbworker.step_visit
  WHERE ctid = ANY (ARRAY(
    SELECT visit.ctid
    FROM verbworker.step_visit AS visit
    LEFT JOIN verbworker.workflow_instance AS instance
      ON instance.engine_id = visit.engine_id AND instance.instance_key = visit.process_instance_key
    WHERE visit.engine_id = $1 AND CASE
      WHEN instance.instance_uid IS NULL THEN visit.visited_at < clock_timestamp() - interval '1 day'
      ELSE instance.ended_at < clock_timestamp() - $2::interval
    END
    LIMIT $3
    FOR UPDATE OF visit SKIP LOCKED
  ))
  RETURNING 1
)
SELECT count(*) AS forgotten
FROM gone;
