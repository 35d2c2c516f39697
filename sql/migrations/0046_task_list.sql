-- What a list of tasks is sorted by: when a task is due and how urgent it is. The engine writes both as text, for the model's
-- author; a text that is no moment, or no number, counts as not given. Without a due date of the model's own it is that of the
-- timer that would end the task.
ALTER TABLE verbworker.parked_token ADD COLUMN task_due timestamptz, ADD COLUMN priority integer;

CREATE FUNCTION verbworker.read_task() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  -- FEEL may name the zone behind the offset.
  due constant text := regexp_replace(NEW.detail ->> 'due', '\[[^\]]*\]$', '');
BEGIN
  IF due ~ '^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$' THEN
    BEGIN
      NEW.task_due := due::timestamptz;
    EXCEPTION WHEN data_exception THEN
      NULL;  -- a month 13
    END;
  END IF;
  NEW.task_due := coalesce(NEW.task_due, NEW.due_at);
  NEW.priority := CASE WHEN NEW.detail ->> 'priority' ~ '^\d{1,3}$' THEN (NEW.detail ->> 'priority')::integer ELSE 50 END;
  RETURN NEW;
END
$$;

CREATE TRIGGER task_is_read BEFORE INSERT OR UPDATE OF detail ON verbworker.parked_token
FOR EACH ROW WHEN (NEW.kind = 'human_gate') EXECUTE FUNCTION verbworker.read_task();

UPDATE verbworker.parked_token SET detail = detail WHERE kind = 'human_gate' AND closed_at IS NULL;

CREATE INDEX parked_token_tasks ON verbworker.parked_token (tenant_id, task_due)
WHERE kind = 'human_gate' AND closed_at IS NULL;
