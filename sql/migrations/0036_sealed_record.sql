-- A record that covers what people read. What was asked is digested when the entry is written, and the chain of its events
-- begins with these digests; the end carries a digest of the outcome, a decision those of its row. Seals chain the entries of
-- a tenant, so that one which is missing shows; workers sign them with a key that this database does not have.
--
-- A digest of words from outside is salted: the salt goes when the words are erased, and what is left cannot be guessed. A
-- value that stays after an erasure is digested without a salt. Rows from before this migration have neither.

ALTER TABLE verbworker.runbook_entry
  ADD COLUMN salt uuid,
  ADD COLUMN asked jsonb;

ALTER TABLE verbworker.runbook_event
  ADD COLUMN salt uuid,
  ADD COLUMN digests jsonb,
  ADD COLUMN tx bigint;
-- Which transaction wrote an event, so that a seal finds what was committed since the one before. Not part of the hash.
ALTER TABLE verbworker.runbook_event ALTER COLUMN tx SET DEFAULT pg_current_xact_id()::text::bigint;
CREATE INDEX runbook_event_tx ON verbworker.runbook_event (tx) WHERE tx IS NOT NULL;

-- plpgsql, because its expressions start faster than an SQL function that cannot be inlined: each runs once an event or entry.
-- ---- digests ----------------------------------------------------------------------------------------------------------

-- The digest of some texts. As JSON no two lists of texts are spelt alike.
CREATE FUNCTION verbworker.digest_texts(salt uuid, VARIADIC texts text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN encode(sha256(coalesce(uuid_send(salt), '\x') || convert_to(to_jsonb(texts)::text, 'UTF8')), 'hex');
END
$$;

-- The digest of a content; null of none.
CREATE FUNCTION verbworker.digest_bytes(salt uuid, content bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN encode(sha256(coalesce(uuid_send(salt), '\x') || content), 'hex');
END
$$;

CREATE FUNCTION verbworker.micros(at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (extract(epoch FROM at) * 1000000)::bigint::text
$$;

-- What was asked, part by part. `asked_by` and `verb` stay when an entry is erased.
CREATE FUNCTION verbworker.digest_asked(entry verbworker.runbook_entry) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN jsonb_build_object(
    'verb', verbworker.digest_texts(NULL, entry.tenant_id, entry.verb, entry.verb_version, entry.mode, entry.process_id,
      verbworker.micros(entry.created_at)),
    'asked_by', verbworker.digest_texts(NULL, entry.asked_by, entry.asked_by_id::text),
    'sentence', verbworker.digest_texts(entry.salt, entry.sentence),
    'invocation', verbworker.digest_texts(entry.salt, entry.invocation),
    'args', verbworker.digest_bytes(entry.salt, entry.args),
    'origin', verbworker.digest_texts(entry.salt, entry.provenance::text, entry.traceparent),
    'request_key', verbworker.digest_texts(entry.salt, entry.request_key, encode(entry.request_hash, 'hex')));
END
$$;

-- Where the chain of an entry begins: the hash that its first event is chained to.
CREATE FUNCTION verbworker.first_hash(entry uuid, asked jsonb) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN asked IS NULL THEN '\x'::bytea
    ELSE sha256(convert_to(concat_ws(E'\n', 'asked/1', entry, asked), 'UTF8')) END;
END
$$;

CREATE FUNCTION verbworker.cover_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.salt := gen_random_uuid();
  NEW.asked := verbworker.digest_asked(NEW);
  NEW.last_hash := verbworker.first_hash(NEW.entry_id, NEW.asked);
  RETURN NEW;
END
$$;

-- Not for a row that comes from a backup with its events.
CREATE TRIGGER entry_is_covered BEFORE INSERT ON verbworker.runbook_entry
FOR EACH ROW WHEN (NEW.asked IS NULL AND NEW.last_seq = 0) EXECUTE FUNCTION verbworker.cover_entry();

-- A decision. `decision` stays when its entry is erased.
CREATE FUNCTION verbworker.digest_decision(made verbworker.gate_decision, salt uuid) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN jsonb_build_object(
    'decision', verbworker.digest_texts(NULL, made.token_id::text, made.instance_uid::text, made.gate, made.decision,
      made.decided_by, made.decided_by_id::text, verbworker.micros(made.decided_at)),
    'reason', verbworker.digest_texts(salt, made.reason));
END
$$;

-- An event with a salt or digests. The first line tells it from one without, whose first line is an entry's id; and the
-- length of `once`, the only text that may hold a line break, makes the lines unambiguous.
CREATE FUNCTION verbworker.event_hash(
  previous bytea, entry uuid, seq bigint, at timestamptz, kind text, once text, detail jsonb, status text, salt uuid,
  digests jsonb
) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE
    WHEN salt IS NULL AND digests IS NULL
    THEN verbworker.event_hash(previous, entry, seq, at, kind, once, detail, status)
    ELSE sha256(previous || convert_to(
      concat_ws(E'\n', 'event/2', coalesce(salt::text, '-'), entry, seq, verbworker.micros(at), kind, status, length(once),
        once, coalesce(digests::text, '-'), detail), 'UTF8'))
  END;
END
$$;

-- Record one event once. Nothing is written, and null returned, when the entry is unknown, when it was recorded before,
-- or when a second end would contradict the first.
CREATE OR REPLACE FUNCTION verbworker.append_event(entry uuid, kind text, once text, detail jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  held verbworker.runbook_entry;
  now_is timestamptz := clock_timestamp();
  own_salt uuid := gen_random_uuid();
  own_digests jsonb;
  next_status text;
  next_hash bytea;
  ends boolean;
BEGIN
  SELECT * INTO held FROM verbworker.runbook_entry AS e WHERE e.entry_id = entry FOR UPDATE;
  IF NOT FOUND OR EXISTS (
    SELECT 1 FROM verbworker.runbook_event AS told WHERE told.entry_id = entry AND told.once = append_event.once
  ) THEN
    RETURN NULL;
  END IF;
  next_status := verbworker.status_after(kind, detail, EXISTS (
    SELECT 1 FROM verbworker.parked_token AS t WHERE t.entry_id = entry AND t.closed_at IS NULL));
  ends := next_status NOT IN ('executing', 'parked');
  IF held.ended_at IS NOT NULL THEN
    IF ends THEN
      RETURN NULL;
    END IF;
    next_status := held.status;
  END IF;
  IF next_status NOT IN ('executing', 'parked') THEN
    -- What has ended waits for nothing, not even for a wait that was on its way when it ended.
    UPDATE verbworker.parked_token AS t SET closed_at = now_is, closed_as = 'ended'
    WHERE t.entry_id = entry AND t.closed_at IS NULL;
  END IF;
  IF ends THEN
    own_digests := jsonb_build_object('outcome', verbworker.digest_bytes(own_salt, held.outcome));
  ELSIF kind = 'GateDecided' THEN
    SELECT verbworker.digest_decision(made, own_salt) INTO own_digests
    FROM verbworker.gate_decision AS made
    WHERE made.token_id = (detail ->> 'token_id')::uuid AND made.entry_id = entry;
  END IF;
  next_hash := verbworker.event_hash(
    held.last_hash, entry, held.last_seq + 1, now_is, kind, once, detail, next_status, own_salt, own_digests);
  INSERT INTO verbworker.runbook_event (entry_id, seq, at, kind, once, detail, status, hash, salt, digests)
  VALUES (entry, held.last_seq + 1, now_is, kind, once, detail, next_status, next_hash, own_salt, own_digests);
  UPDATE verbworker.runbook_entry AS e SET
    last_seq = held.last_seq + 1,
    last_hash = next_hash,
    status = next_status,
    updated_at = now_is,
    ended_at = CASE WHEN ends THEN now_is ELSE e.ended_at END
  WHERE e.entry_id = entry;
  IF next_status <> held.status THEN
    PERFORM pg_notify('verbworker_runbook', entry::text);
  END IF;
  RETURN held.last_seq + 1;
END
$$;

-- An event may lose parts of its detail, and its salt, when its entry has ended, and nothing else.
CREATE OR REPLACE FUNCTION verbworker.refuse_event_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND TG_LEVEL = 'ROW' THEN
    IF NEW.detail <@ OLD.detail AND NEW.once IN (OLD.once, 'erased:' || OLD.seq) AND OLD.kind <> 'Erased'
      AND (NEW.salt IS NULL OR NEW.salt = OLD.salt) AND NEW.digests IS NOT DISTINCT FROM OLD.digests
      AND (NEW.entry_id, NEW.seq, NEW.at, NEW.kind, NEW.status, NEW.hash)
        = (OLD.entry_id, OLD.seq, OLD.at, OLD.kind, OLD.status, OLD.hash)
      AND EXISTS (
        SELECT 1 FROM verbworker.runbook_entry AS entry
        WHERE entry.entry_id = OLD.entry_id AND entry.ended_at IS NOT NULL)
    THEN
      RETURN NEW;
    END IF;
  END IF;
  RAISE EXCEPTION 'runbook events are appended and never changed'
    USING ERRCODE = 'integrity_constraint_violation';
END
$$;

-- ---- seals ------------------------------------------------------------------------------------------------------------

-- The seals of a tenant, each with the hash of the one before. The signature is over the hash, with a key of the workers;
-- both are null where no key is set.
CREATE TABLE verbworker.runbook_seal (
  tenant_id text NOT NULL,
  number bigint NOT NULL CHECK (number > 0),
  at timestamptz NOT NULL,
  -- How many lines it has, and their digest.
  lines bigint NOT NULL,
  lines_hash bytea NOT NULL,
  previous bytea NOT NULL,
  hash bytea NOT NULL,
  key_id text,
  signature bytea,
  -- Every event of a transaction before this one is sealed here or earlier; null in a seal of dropped entries.
  horizon bigint,
  PRIMARY KEY (tenant_id, number),
  CHECK ((key_id IS NULL) = (signature IS NULL))
);

CREATE INDEX runbook_seal_horizon ON verbworker.runbook_seal (at) WHERE horizon IS NOT NULL;

-- Where the chain of an entry was when it was sealed, or where it ended when retention dropped the entry.
CREATE TABLE verbworker.runbook_seal_line (
  tenant_id text NOT NULL,
  number bigint NOT NULL,
  entry_id uuid NOT NULL,
  seq bigint NOT NULL,
  hash bytea NOT NULL,
  dropped boolean NOT NULL,
  PRIMARY KEY (tenant_id, number, entry_id)
);

CREATE INDEX runbook_seal_line_entry ON verbworker.runbook_seal_line (entry_id, number);

CREATE FUNCTION verbworker.refuse_seal_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'seals are appended and never changed'
    USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER seals_are_final BEFORE UPDATE OR DELETE OR TRUNCATE ON verbworker.runbook_seal
FOR EACH STATEMENT EXECUTE FUNCTION verbworker.refuse_seal_change();
CREATE TRIGGER seal_lines_are_final BEFORE UPDATE OR DELETE OR TRUNCATE ON verbworker.runbook_seal_line
FOR EACH STATEMENT EXECUTE FUNCTION verbworker.refuse_seal_change();
