-- Retention: what may go, and the only ways for it to go.
--
-- Each view `retired_*` lists rows that no case needs any more and since when: never a row of an open case, however old.
-- The functions `drop_*` delete rows of these views that retired before a moment, at most `most` at a time, and pass
-- over rows that another session has locked. They run as the owner of the tables: a worker's role needs to execute
-- them and no right to delete. What a view does not list they cannot delete, whatever they are called with.
-- OFFSET 0 keeps Postgres from reading a whole table where it should look up one row.

-- When a discarded message left the queue; a consumed one has its own time.
ALTER TABLE verbworker.inbox_message ADD COLUMN discarded_at timestamptz;
-- When the payloads of an ended instance went, so that no later round looks for them again.
ALTER TABLE verbworker.workflow_instance ADD COLUMN payload_dropped_at timestamptz;
-- When a process last said that it lives. A worker may run for longer than its name is kept.
ALTER TABLE verbworker.worker_boot ADD COLUMN seen_at timestamptz NOT NULL DEFAULT now();
ALTER TABLE verbworker.worker_boot ALTER COLUMN seen_at SET DEFAULT clock_timestamp();
-- An instance that was started twice leaves visits under a key that no instance has; only their age tells them.
ALTER TABLE verbworker.step_visit ADD COLUMN visited_at timestamptz NOT NULL DEFAULT now();
ALTER TABLE verbworker.step_visit ALTER COLUMN visited_at SET DEFAULT clock_timestamp();

-- Which months hold frames of open cases is asked case by case.
CREATE INDEX job_frame_archive_of_instance ON verbworker.job_frame_archive (instance_uid);
CREATE INDEX frame_event_by_age ON verbworker.frame_event (at);
CREATE INDEX inbox_message_over ON verbworker.inbox_message ((coalesce(consumed_at, discarded_at, expires_at)))
WHERE state IN ('consumed', 'discarded');
CREATE INDEX dead_letter_resolved ON verbworker.dead_letter (resolved_at) WHERE resolved_at IS NOT NULL;
CREATE INDEX runbook_entry_ended ON verbworker.runbook_entry (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX workflow_instance_payload ON verbworker.workflow_instance (ended_at)
WHERE ended_at IS NOT NULL AND payload_dropped_at IS NULL;

-- All tokens of an entry, not only its open ones: an entry goes with them. An entry has few, so this serves both.
CREATE INDEX parked_token_of_entry ON verbworker.parked_token (entry_id);
DROP INDEX verbworker.parked_token_open;
-- Without `seen_at`: every gate that waits is heard of every few minutes, and an index on that time would make each of
-- those updates write to every index of the table. Open gates are few enough to be sorted.
DROP INDEX verbworker.parked_token_silent;
CREATE INDEX parked_token_silent ON verbworker.parked_token (engine_id) WHERE kind = 'human_gate' AND closed_at IS NULL;

-- An event goes with its whole entry and in no other way.
ALTER TABLE verbworker.runbook_event
  DROP CONSTRAINT runbook_event_entry_id_fkey,
  ADD CONSTRAINT runbook_event_entry_id_fkey FOREIGN KEY (entry_id) REFERENCES verbworker.runbook_entry ON DELETE CASCADE;

CREATE FUNCTION verbworker.refuse_event_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM verbworker.runbook_entry AS entry WHERE entry.entry_id = OLD.entry_id) THEN
    RAISE EXCEPTION 'runbook events are appended and never changed; they go with their whole entry'
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN OLD;
END
$$;

CREATE FUNCTION verbworker.refuse_entry_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'entry % is open and cannot be dropped', OLD.entry_id USING ERRCODE = 'integrity_constraint_violation';
END
$$;

DROP TRIGGER events_are_final ON verbworker.runbook_event;
CREATE TRIGGER events_are_final BEFORE UPDATE OR TRUNCATE ON verbworker.runbook_event
FOR EACH STATEMENT EXECUTE FUNCTION verbworker.refuse_event_change();
CREATE TRIGGER events_go_whole BEFORE DELETE ON verbworker.runbook_event
FOR EACH ROW EXECUTE FUNCTION verbworker.refuse_event_loss();
CREATE TRIGGER entries_go_ended BEFORE DELETE ON verbworker.runbook_entry
FOR EACH ROW WHEN (OLD.ended_at IS NULL) EXECUTE FUNCTION verbworker.refuse_entry_loss();

-- ---- what may go ------------------------------------------------------------------------------------------------------

CREATE VIEW verbworker.retired_archived_frame WITH (security_invoker = true) AS
SELECT frame.engine_id, frame.job_key, frame.acked_at AS since
FROM verbworker.job_frame_archive AS frame
WHERE NOT EXISTS (
  SELECT 1
  FROM verbworker.workflow_instance AS instance
  WHERE instance.instance_uid = frame.instance_uid AND instance.ended_at IS NULL
  OFFSET 0
);

CREATE VIEW verbworker.retired_frame_event WITH (security_invoker = true) AS
SELECT event.ctid AS place, event.at AS since
FROM verbworker.frame_event AS event
WHERE NOT EXISTS (
  SELECT 1
  FROM verbworker.job_frame AS frame
  WHERE frame.engine_id = event.engine_id AND frame.job_key = event.job_key
  OFFSET 0
) AND NOT EXISTS (
  SELECT 1
  FROM verbworker.job_frame_archive AS frame
  JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = frame.instance_uid
  WHERE frame.engine_id = event.engine_id AND frame.job_key = event.job_key AND instance.ended_at IS NULL
  OFFSET 0
);

CREATE VIEW verbworker.retired_frame_conflict WITH (security_invoker = true) AS
SELECT conflict.ctid AS place, conflict.at AS since
FROM verbworker.frame_conflict AS conflict
WHERE NOT EXISTS (
  SELECT 1
  FROM verbworker.job_frame AS frame
  WHERE frame.engine_id = conflict.engine_id AND frame.job_key = conflict.job_key
  OFFSET 0
) AND NOT EXISTS (
  SELECT 1
  FROM verbworker.job_frame_archive AS frame
  JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = frame.instance_uid
  WHERE frame.engine_id = conflict.engine_id AND frame.job_key = conflict.job_key AND instance.ended_at IS NULL
  OFFSET 0
);

CREATE VIEW verbworker.retired_worker_boot WITH (security_invoker = true) AS
SELECT boot.ctid AS place, boot.seen_at AS since
FROM verbworker.worker_boot AS boot
WHERE NOT EXISTS (SELECT 1 FROM verbworker.job_frame AS frame WHERE frame.owner = boot.owner)
  AND NOT EXISTS (SELECT 1 FROM verbworker.job_delivery AS delivery WHERE delivery.owner = boot.owner);

-- A verb may ask for any message its case has read, so a message stays until its case has ended.
CREATE VIEW verbworker.retired_inbox_message WITH (security_invoker = true) AS
SELECT message.ctid AS place, coalesce(message.consumed_at, message.discarded_at, message.expires_at) AS since
FROM verbworker.inbox_message AS message
WHERE message.state IN ('consumed', 'discarded')
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.workflow_instance AS instance
    WHERE instance.instance_uid = message.instance_uid AND instance.ended_at IS NULL
    OFFSET 0
  )
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.runbook_entry AS entry
    WHERE entry.entry_id = message.entry_id AND entry.ended_at IS NULL
    OFFSET 0
  );

CREATE VIEW verbworker.retired_dead_letter WITH (security_invoker = true) AS
SELECT letter.ctid AS place, letter.resolved_at AS since
FROM verbworker.dead_letter AS letter
WHERE letter.resolved_at IS NOT NULL
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.runbook_entry AS entry
    WHERE entry.entry_id = letter.entry_id AND entry.ended_at IS NULL
    OFFSET 0
  );

-- A verdict that the engine has not heard of, or that is on its way into the archive, is still worked on; so is a run
-- whose lease was alive a day ago. Every other frame of an ended instance will never come to an end.
CREATE VIEW verbworker.retired_payload WITH (security_invoker = true) AS
SELECT instance.instance_uid, instance.ended_at AS since
FROM verbworker.workflow_instance AS instance
WHERE instance.ended_at IS NOT NULL AND instance.payload_dropped_at IS NULL
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.job_frame AS frame
    WHERE frame.instance_uid = instance.instance_uid AND (
      frame.state = 'completed'
      OR (frame.state = 'started' AND frame.lease_until > statement_timestamp() - interval '1 day')
    )
    OFFSET 0
  );

-- Whatever the setting, an entry is left for a day: what was under way when it ended is told by then.
CREATE VIEW verbworker.retired_runbook_entry WITH (security_invoker = true) AS
SELECT entry.entry_id, entry.ended_at AS since
FROM verbworker.runbook_entry AS entry
WHERE entry.ended_at < statement_timestamp() - interval '1 day'
  AND NOT EXISTS (
    SELECT 1
    FROM verbworker.workflow_instance AS instance
    LEFT JOIN verbworker.job_frame AS frame ON frame.instance_uid = instance.instance_uid
    WHERE instance.entry_id = entry.entry_id AND (
      instance.ended_at IS NULL
      OR frame.state = 'completed'
      OR (frame.state = 'started' AND frame.lease_until > statement_timestamp() - interval '1 day')
    )
    OFFSET 0
  );

-- ---- the only ways for it to go ---------------------------------------------------------------------------------------

-- How many rows of a view retired before a moment, and since when the oldest; counting stops at `most`.
CREATE FUNCTION verbworker.count_retired(kind text, before timestamptz, most bigint, OUT due bigint, OUT oldest timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format(
    'SELECT count(*), min(since) FROM (SELECT since FROM verbworker.%I WHERE since < $1 ORDER BY since LIMIT $2) AS due',
    'retired_' || kind) INTO due, oldest USING before, most;
END
$$;

-- Delete from a table whose rows go one by one.
CREATE FUNCTION verbworker.drop_retired(kind text, before timestamptz, most bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
  dropped bigint;
BEGIN
  EXECUTE format(
    'DELETE FROM verbworker.%I WHERE ctid = ANY (ARRAY('
    ' SELECT place FROM verbworker.%I WHERE since < $1 ORDER BY since LIMIT $2 FOR UPDATE SKIP LOCKED))',
    kind, 'retired_' || kind) USING before, most;
  GET DIAGNOSTICS dropped = ROW_COUNT;
  RETURN dropped;
END
$$;

-- What an ended instance kept for deliveries of its jobs. Without a payload such a delivery is refused, so the frames
-- that never came to an end go too: were they to stay, nobody would ever move them.
CREATE FUNCTION verbworker.drop_payloads(before timestamptz, most bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
  over uuid[] := ARRAY(
    SELECT instance_uid FROM verbworker.retired_payload WHERE since < before ORDER BY since LIMIT most
    FOR UPDATE SKIP LOCKED);
BEGIN
  DELETE FROM verbworker.job_frame WHERE instance_uid = ANY (over) AND state <> 'completed';
  DELETE FROM verbworker.payload_version WHERE instance_uid = ANY (over);
  DELETE FROM verbworker.payload_head WHERE instance_uid = ANY (over);
  UPDATE verbworker.workflow_instance SET payload_dropped_at = statement_timestamp() WHERE instance_uid = ANY (over);
  RETURN cardinality(over);
END
$$;

-- A month goes whole when it holds no frame of an open case. One that does gives up its other frames, so that a case
-- which stays open for years holds no more than its own. The lock that dropping needs is given up rather than waited
-- for: every push would queue behind it.
DROP FUNCTION verbworker.drop_archive_months(timestamptz);
CREATE FUNCTION verbworker.drop_archived_frames(before timestamptz, most bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE
  month text;
  frames bigint;
  is_needed boolean;
  dropped bigint;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('verbworker.drop_archived_frames')) THEN
    RETURN 0;
  END IF;
  FOR month, frames IN
    SELECT child.relname, child.reltuples
    FROM pg_inherits
    JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
    WHERE pg_inherits.inhparent = 'verbworker.job_frame_archive'::regclass
      AND to_date(right(child.relname, 7), 'YYYY_MM') + interval '1 month' <= before AT TIME ZONE 'UTC'
    ORDER BY child.relname
  LOOP
    EXECUTE format(
      'SELECT EXISTS (SELECT 1 FROM verbworker.workflow_instance AS instance WHERE instance.ended_at IS NULL AND EXISTS ('
      ' SELECT 1 FROM verbworker.%I AS frame WHERE frame.instance_uid = instance.instance_uid OFFSET 0))', month)
      INTO is_needed;
    IF NOT is_needed THEN
      EXECUTE format('DROP TABLE verbworker.%I', month);
      -- One at a time, by the server's estimate of its rows. An empty month counts, so that the next one is looked at.
      RETURN greatest(frames, 1);
    END IF;
  END LOOP;
  DELETE FROM verbworker.job_frame_archive AS frame
  USING (
    SELECT engine_id, job_key, since FROM verbworker.retired_archived_frame
    WHERE since < date_trunc('month', before, 'UTC') LIMIT most FOR UPDATE SKIP LOCKED
  ) AS retired
  WHERE frame.engine_id = retired.engine_id AND frame.job_key = retired.job_key AND frame.acked_at = retired.since;
  GET DIAGNOSTICS dropped = ROW_COUNT;
  RETURN dropped;
END
$$;

-- Drop whole entries with everything that tells of them, and return which went. The caller names the head of the chain
-- that it has read for its export: an entry of which something was told since then stays.
CREATE FUNCTION verbworker.drop_entries(entries uuid[], heads bytea[], before timestamptz) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
  over uuid[] := ARRAY(
    SELECT entry.entry_id
    FROM unnest(entries, heads) AS known (entry_id, head)
    JOIN verbworker.runbook_entry AS entry ON entry.entry_id = known.entry_id AND entry.last_hash = known.head
    JOIN verbworker.retired_runbook_entry AS retired ON retired.entry_id = entry.entry_id
    WHERE retired.since < before
    FOR UPDATE OF entry SKIP LOCKED);
  carried uuid[] := ARRAY(
    SELECT instance_uid FROM verbworker.workflow_instance WHERE entry_id = ANY (over) FOR UPDATE);
BEGIN
  DELETE FROM verbworker.job_frame WHERE instance_uid = ANY (carried);
  DELETE FROM verbworker.payload_version WHERE instance_uid = ANY (carried);
  DELETE FROM verbworker.payload_head WHERE instance_uid = ANY (carried);
  DELETE FROM verbworker.compensation_record WHERE instance_uid = ANY (carried);
  DELETE FROM verbworker.gate_decision WHERE instance_uid = ANY (carried);
  DELETE FROM verbworker.parked_token WHERE entry_id = ANY (over);
  DELETE FROM verbworker.dispatch WHERE entry_id = ANY (over);
  DELETE FROM verbworker.workflow_instance WHERE instance_uid = ANY (carried);
  DELETE FROM verbworker.runbook_entry WHERE entry_id = ANY (over);
  RETURN QUERY SELECT unnest(over);
END
$$;

-- Adding a month is the owner's too, so that a worker's role need not be a member of it.
ALTER FUNCTION verbworker.ensure_archive_month(timestamptz) SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

REVOKE ALL ON FUNCTION
  verbworker.ensure_archive_month(timestamptz),
  verbworker.count_retired(text, timestamptz, bigint),
  verbworker.drop_retired(text, timestamptz, bigint),
  verbworker.drop_payloads(timestamptz, bigint),
  verbworker.drop_archived_frames(timestamptz, bigint),
  verbworker.drop_entries(uuid[], bytea[], timestamptz)
FROM PUBLIC;
