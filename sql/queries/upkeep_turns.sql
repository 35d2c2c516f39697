-- name: take
-- Take a turn that is due, or the first one; no row if another worker has it or it is not due. A turn that is not due is
-- only read, so that many workers may ask often.
WITH taken AS (
  UPDATE verbworker.upkeep_turn
  SET owner = $3, number = number + 1, due_at = clock_timestamp() + $4::interval
  WHERE engine_id = $1 AND service = $2 AND due_at <= clock_timestamp()
  RETURNING number, looked_until
),
made AS (
  INSERT INTO verbworker.upkeep_turn (engine_id, service, owner, due_at)
  SELECT $1, $2, $3, clock_timestamp() + $4::interval
  WHERE NOT EXISTS (
    SELECT 1
    FROM verbworker.upkeep_turn
    WHERE engine_id = $1 AND service = $2
  )
  ON CONFLICT (engine_id, service) DO NOTHING
  RETURNING number, looked_until
)
SELECT number, looked_until
FROM taken
UNION ALL
SELECT number, looked_until
FROM made;

-- name: finish
-- The turn is over, and the next one is due after a period. A turn that was taken over meanwhile is left alone.
UPDATE verbworker.upkeep_turn
SET due_at = clock_timestamp() + $5::interval, looked_until = coalesce($6::timestamptz, looked_until)
WHERE engine_id = $1 AND service = $2 AND owner = $3 AND number = $4;
