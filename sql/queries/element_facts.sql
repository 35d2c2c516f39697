-- name: steps
-- The jobs of one case by element, the newest first, whether archived or not.
SELECT element_id, state::text AS state, outcome::text AS outcome, runs, pushed_at, popped_at
FROM verbworker.job_frame
WHERE instance_uid = $1 AND engine_id = $2
UNION ALL
SELECT element_id, state::text, outcome::text, runs, pushed_at, popped_at
FROM verbworker.job_frame_archive
WHERE instance_uid = $1 AND engine_id = $2
ORDER BY pushed_at DESC
LIMIT $3;

-- name: waits
-- What one case waits for or waited for, the newest first.
SELECT element_id, kind, reason, opened_at, closed_at, closed_as
FROM verbworker.parked_token
WHERE entry_id = $1
ORDER BY opened_at DESC
LIMIT $2;

-- name: tokens
-- Where the embedded engine has tokens of an instance: also at jobs that no worker has claimed yet.
SELECT node_id
FROM verbworker_engine.token
WHERE instance_id = $2 AND EXISTS (
  SELECT 1
  FROM verbworker_engine.identity AS engine
  WHERE engine.engine_id = $1
);

-- name: processes
-- The processes that are deployed, each with its newest version; of those nobody in the tenant uses only on request.
SELECT newest.engine_id, newest.process_id, newest.verb, newest.version, newest.versions, newest.deployed_at,
  used.last_at
FROM (
  SELECT DISTINCT ON (engine_id, process_id)
    engine_id, process_id, verb, version, deployed_at, count(*) OVER (PARTITION BY engine_id, process_id) AS versions
  FROM verbworker.process_deployment
  ORDER BY engine_id, process_id, version DESC
) AS newest
LEFT JOIN LATERAL (
  SELECT entry.created_at AS last_at
  FROM verbworker.runbook_entry AS entry
  WHERE entry.tenant_id = $1 AND entry.process_id = newest.process_id
  ORDER BY entry.created_at DESC
  LIMIT 1
) AS used ON true
WHERE $2::boolean OR used.last_at IS NOT NULL
ORDER BY newest.process_id, newest.engine_id
LIMIT $3;

-- name: versions
-- The versions of one process, the newest first, with a tenant's cases of each: open, failed and all, among its newest ones.
SELECT deployment.definition_key, deployment.version, deployment.verb, deployment.deployed_at,
  coalesce(counted.entries, 0) AS entries, coalesce(counted.open, 0) AS open, coalesce(counted.failed, 0) AS failed
FROM verbworker.process_deployment AS deployment
LEFT JOIN (
  SELECT newest.definition_key, count(*) AS entries,
    count(*) FILTER (WHERE newest.ended_at IS NULL) AS open,
    count(*) FILTER (WHERE newest.status = 'failed') AS failed
  FROM (
    SELECT entry.definition_key, entry.status, entry.ended_at
    FROM verbworker.runbook_entry AS entry
    WHERE entry.tenant_id = $1 AND entry.process_id = $3
    ORDER BY entry.created_at DESC
    LIMIT $4
  ) AS newest
  GROUP BY newest.definition_key
) AS counted ON counted.definition_key = deployment.definition_key
WHERE deployment.engine_id = $2 AND deployment.process_id = $3
ORDER BY deployment.version DESC
LIMIT $5;

-- name: durations
-- How often, how long and how badly the elements of a definition were visited in a tenant's newest cases of it: jobs from
-- their first delivery to their verdict, waits from their beginning to their end. Only so many cases are looked through.
WITH cases AS MATERIALIZED (
  SELECT newest.entry_id
  FROM (
    SELECT entry.entry_id, entry.definition_key, entry.created_at
    FROM verbworker.runbook_entry AS entry
    WHERE entry.tenant_id = $1 AND entry.process_id = $3
    ORDER BY entry.created_at DESC
    LIMIT $5
  ) AS newest
  WHERE newest.definition_key = $4
  ORDER BY newest.created_at DESC
  LIMIT $6
),
instances AS MATERIALIZED (
  SELECT instance.instance_uid
  FROM cases
  JOIN verbworker.workflow_instance AS instance ON instance.entry_id = cases.entry_id AND instance.engine_id = $2
),
visits AS (
  SELECT frame.element_id, frame.popped_at - frame.pushed_at AS took, frame.state = 'completed' AS is_done,
    frame.state IN ('failed', 'incident') OR frame.runs > 1 AS is_bad
  FROM instances
  JOIN verbworker.job_frame AS frame ON frame.instance_uid = instances.instance_uid AND frame.engine_id = $2
  UNION ALL
  SELECT frame.element_id, frame.popped_at - frame.pushed_at, true, frame.runs > 1
  FROM instances
  JOIN verbworker.job_frame_archive AS frame ON frame.instance_uid = instances.instance_uid AND frame.engine_id = $2
  UNION ALL
  SELECT token.element_id, token.closed_at - token.opened_at, token.closed_at IS NOT NULL, false
  FROM cases
  JOIN verbworker.parked_token AS token ON token.entry_id = cases.entry_id AND token.engine_id = $2
  WHERE token.kind <> 'incident'
)
SELECT element_id, count(*) AS visits, count(*) FILTER (WHERE is_bad) AS failures,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM took)) FILTER (WHERE is_done) AS p50,
  percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM took)) FILTER (WHERE is_done) AS p95,
  (SELECT count(*) FROM cases) AS cases
FROM visits
GROUP BY element_id;

-- name: open_waits
-- What a tenant's open cases of a definition wait for now, by element: all of them, and the incidents among them.
SELECT token.element_id, count(*) FILTER (WHERE token.kind <> 'incident') AS waiting,
  count(*) FILTER (WHERE token.kind = 'incident') AS incidents, min(token.opened_at) AS since
FROM verbworker.parked_token AS token
JOIN verbworker.runbook_entry AS entry ON entry.entry_id = token.entry_id
WHERE token.tenant_id = $1 AND token.engine_id = $2 AND token.closed_at IS NULL AND entry.definition_key = $3
GROUP BY token.element_id;
