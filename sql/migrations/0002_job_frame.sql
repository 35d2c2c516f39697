-- One frame per job of one engine: who may run it, what came of it, what the engine was told.
CREATE TYPE verbworker.frame_state AS ENUM ('started', 'failed', 'completed', 'incident');
-- Types rather than checks: Postgres reads each check constraint of a table anew in every statement that writes to it.
CREATE TYPE verbworker.frame_mode AS ENUM ('transactional', 'external');
CREATE TYPE verbworker.frame_doubt AS ENUM ('rerun', 'probe', 'hold');
CREATE TYPE verbworker.frame_origin AS ENUM ('new', 'retry', 'takeover', 'release');
CREATE TYPE verbworker.frame_outcome AS ENUM ('complete', 'bpmn_error');

CREATE TABLE verbworker.job_frame (
  engine_id text NOT NULL,
  job_key bigint NOT NULL,
  -- Identity: compared on every delivery, because a recreated engine hands out the same keys again.
  process_instance_key bigint NOT NULL,
  element_instance_key bigint NOT NULL,
  verb text NOT NULL,
  tenant_id text NOT NULL,
  instance_uid uuid,
  -- Where in the model; a migrated instance may change these.
  process_id text NOT NULL,
  process_version integer NOT NULL,
  element_id text NOT NULL,
  entry_id uuid,
  -- How the verb wants to be treated, as declared when the frame was claimed.
  mode verbworker.frame_mode NOT NULL,
  on_unknown verbworker.frame_doubt NOT NULL,
  max_runs integer NOT NULL,
  idempotency_window interval NOT NULL,
  idempotency_key text NOT NULL,
  generation integer NOT NULL DEFAULT 0,
  -- Ownership: epoch and owner fence every later write; the lease is Postgres time.
  state verbworker.frame_state NOT NULL DEFAULT 'started',
  epoch bigint NOT NULL DEFAULT 1,
  owner uuid NOT NULL,
  lease_until timestamptz NOT NULL,
  activated_ms bigint NOT NULL,
  claimed_from verbworker.frame_origin NOT NULL DEFAULT 'new',
  -- Counters.
  deliveries integer NOT NULL DEFAULT 1,
  runs integer NOT NULL DEFAULT 1,
  infra_runs integer NOT NULL DEFAULT 0,
  retries_left integer NOT NULL,
  first_run_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- When the idempotency key came into use: the other side forgets it one window later, whoever releases the frame.
  keyed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  next_retry_at timestamptz,
  -- Content.
  input_hash bytea NOT NULL,
  outcome verbworker.frame_outcome,
  output bytea,
  output_hash bytea,
  output_seal text,
  flags jsonb,
  correlation jsonb,
  error_code text,
  fail_class text,
  fail_code text,
  fail_text text,
  -- What the engine was told.
  reported_at timestamptz,
  acked_at timestamptz,
  ack_result text,
  relay_at timestamptz,
  pushed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  popped_at timestamptz,
  PRIMARY KEY (engine_id, job_key),
  CONSTRAINT frame_is_plausible CHECK (
    epoch > 0 AND max_runs > 0
    AND (state <> 'completed' OR outcome IS NOT NULL)
    AND (state <> 'failed' OR (next_retry_at IS NOT NULL AND retries_left > 0))
  )
) WITH (fillfactor = 70);
-- No second index: an index on state, lease or acknowledgement would make every update of a frame rewrite it.

-- The belt to the braces: what is completed stays as it is, and an epoch only grows. Named columns, so that heartbeats
-- and acknowledgements pay for none of it; the bytes themselves are compared by their hash.
CREATE FUNCTION verbworker.refuse_frame_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'frame % of engine % is completed or fenced and cannot change', OLD.job_key, OLD.engine_id
    USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER frame_is_final BEFORE UPDATE OF
  state, epoch, outcome, output, output_hash, output_seal, flags, correlation, error_code ON verbworker.job_frame
FOR EACH ROW WHEN (
  NEW.epoch < OLD.epoch
  OR (OLD.state = 'completed' AND (
    NEW.state <> OLD.state OR NEW.epoch <> OLD.epoch OR NEW.outcome IS DISTINCT FROM OLD.outcome
    OR NEW.output_hash IS DISTINCT FROM OLD.output_hash OR NEW.output_seal IS DISTINCT FROM OLD.output_seal
    OR NEW.flags IS DISTINCT FROM OLD.flags OR NEW.correlation IS DISTINCT FROM OLD.correlation
    OR NEW.error_code IS DISTINCT FROM OLD.error_code))
)
EXECUTE FUNCTION verbworker.refuse_frame_change();

-- The bytes of a verdict are what their hash says. Not a check constraint: that would hash them again whenever anything
-- of the frame changes.
CREATE FUNCTION verbworker.refuse_frame_content() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'new row for "job_frame" violates check constraint "frame_is_true"' USING ERRCODE = 'check_violation';
END
$$;

CREATE TRIGGER frame_is_true BEFORE INSERT OR UPDATE OF outcome, output, output_hash ON verbworker.job_frame
FOR EACH ROW WHEN (
  (NEW.outcome = 'complete' AND NEW.output IS NULL)
  OR octet_length(NEW.output) > 1048576
  OR (NEW.output IS NOT NULL AND NEW.output_hash IS DISTINCT FROM sha256(NEW.output))
)
EXECUTE FUNCTION verbworker.refuse_frame_content();

-- Acknowledged frames leave the hot table; months are dropped whole. A frame's columns follow in the same order.
CREATE TABLE verbworker.job_frame_archive (
  archived_at timestamptz NOT NULL,
  LIKE verbworker.job_frame INCLUDING DEFAULTS,
  PRIMARY KEY (engine_id, job_key, acked_at)
) PARTITION BY RANGE (acked_at);

-- Made apart and then attached: creating it as a partition would lock the archive against every push.
CREATE FUNCTION verbworker.ensure_archive_month(at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  first date := date_trunc('month', at AT TIME ZONE 'UTC');
  name text := 'job_frame_archive_' || to_char(first, 'YYYY_MM');
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('verbworker.job_frame_archive'));
  IF to_regclass('verbworker.' || name) IS NULL THEN
    EXECUTE format('CREATE TABLE verbworker.%I (LIKE verbworker.job_frame_archive INCLUDING ALL)', name);
    EXECUTE format(
      'ALTER TABLE verbworker.job_frame_archive ATTACH PARTITION verbworker.%I FOR VALUES FROM (%L) TO (%L)',
      name, first::timestamp AT TIME ZONE 'UTC', (first + interval '1 month')::timestamp AT TIME ZONE 'UTC');
  END IF;
END
$$;

-- Dropping needs the archive for a moment; rather than make every push queue behind it, it gives up and is called again.
CREATE FUNCTION verbworker.drop_archive_months(before timestamptz) RETURNS integer LANGUAGE plpgsql
SET lock_timeout = '1s' AS $$
DECLARE
  month text;
  dropped integer := 0;
BEGIN
  FOR month IN
    SELECT child.relname
    FROM pg_inherits
    JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
    WHERE pg_inherits.inhparent = 'verbworker.job_frame_archive'::regclass
      AND to_date(right(child.relname, 7), 'YYYY_MM') + interval '1 month' <= before AT TIME ZONE 'UTC'
    ORDER BY child.relname
  LOOP
    EXECUTE format('DROP TABLE verbworker.%I', month);
    dropped := dropped + 1;
  END LOOP;
  RETURN dropped;
END
$$;

-- What happened to a frame beyond one delivery, one run and one answer. Append only; read by `frames explain`.
CREATE TABLE verbworker.frame_event (
  engine_id text NOT NULL,
  job_key bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  kind text NOT NULL,
  epoch bigint,
  owner uuid,
  detail text NOT NULL DEFAULT ''
);
CREATE INDEX frame_event_by_job ON verbworker.frame_event (engine_id, job_key, at);

-- A delivery whose identity differs from the frame of the same key: never replayed, kept for a person.
CREATE TABLE verbworker.frame_conflict (
  engine_id text NOT NULL,
  job_key bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  frame jsonb NOT NULL,
  delivery jsonb NOT NULL
);
CREATE INDEX frame_conflict_by_job ON verbworker.frame_conflict (engine_id, job_key);

-- The process boots that own frames, so that an owner has a name a person knows.
CREATE TABLE verbworker.worker_boot (
  owner uuid PRIMARY KEY,
  name text NOT NULL,
  host text NOT NULL,
  pid integer NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
