-- name: usage
-- How much each tenant has of what quotas limit: open cases, messages that wait, and what it asked for in this minute.
SELECT tenant_id, 'open_cases' AS quota, count(*) AS used
FROM verbworker.runbook_entry
WHERE ended_at IS NULL
GROUP BY tenant_id
UNION ALL
SELECT tenant_id, 'waiting_messages', count(*)
FROM verbworker.inbox_message
WHERE state = 'received'
GROUP BY tenant_id
UNION ALL
SELECT minute.tenant_id, counted.quota, sum(counted.used)::bigint
FROM verbworker.tenant_use AS minute
CROSS JOIN LATERAL (
  VALUES (minute.kind || '_per_minute', minute.requests), ('message_bytes_per_minute', minute.bytes)
) AS counted (quota, used)
WHERE minute.minute = date_trunc('minute', statement_timestamp())
GROUP BY minute.tenant_id, counted.quota
HAVING sum(counted.used) > 0;

-- name: forget
-- Minutes that are over count for nobody.
DELETE FROM verbworker.tenant_use
WHERE minute < clock_timestamp() - $1::interval;
