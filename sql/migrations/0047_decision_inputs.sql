-- What a person filled in with a decision. It is covered by the record as the reason is: its digest is salted and in the chain,
-- its words are in the event, and only erasure takes them away.
ALTER TABLE verbworker.gate_decision ADD COLUMN inputs jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(inputs) = 'object');

CREATE OR REPLACE FUNCTION verbworker.digest_decision(made verbworker.gate_decision, salt uuid) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN jsonb_build_object(
    'decision', verbworker.digest_texts(NULL, made.token_id::text, made.instance_uid::text, made.gate, made.decision,
      made.decided_by, made.decided_by_id::text, verbworker.micros(made.decided_at)),
    'reason', verbworker.digest_texts(salt, made.reason))
    || CASE WHEN made.inputs = '{}' THEN '{}'
      ELSE jsonb_build_object('inputs', verbworker.digest_texts(salt, made.inputs::text)) END;
END
$$;

DROP TRIGGER decision_is_final ON verbworker.gate_decision;
CREATE TRIGGER decision_is_final BEFORE UPDATE ON verbworker.gate_decision
FOR EACH ROW WHEN (
  (NEW.token_id, NEW.tenant_id, NEW.entry_id, NEW.instance_uid, NEW.gate, NEW.decision, NEW.decided_by, NEW.decided_at)
    IS DISTINCT FROM
  (OLD.token_id, OLD.tenant_id, OLD.entry_id, OLD.instance_uid, OLD.gate, OLD.decision, OLD.decided_by, OLD.decided_at)
  OR NEW.decided_by_id IS DISTINCT FROM OLD.decided_by_id
  OR (NEW.reason <> OLD.reason AND NEW.reason <> '')
  OR (NEW.inputs <> OLD.inputs AND NEW.inputs <> '{}')
)
EXECUTE FUNCTION verbworker.refuse_decision_change();
