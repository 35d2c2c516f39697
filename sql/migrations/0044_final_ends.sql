-- When an entry ended is final too: retention counts from it. And only an erasure, which takes the sentence and the salt as
-- well, leaves an empty outcome; no role but the owner's may write these two.
DROP TRIGGER end_is_final ON verbworker.runbook_entry;
CREATE TRIGGER end_is_final BEFORE UPDATE OF status, outcome, ended_at ON verbworker.runbook_entry
FOR EACH ROW WHEN (
  OLD.ended_at IS NOT NULL AND (
    NEW.status <> OLD.status OR NEW.ended_at IS DISTINCT FROM OLD.ended_at
    OR (
      NEW.outcome IS DISTINCT FROM OLD.outcome
      AND NOT coalesce(NEW.outcome = '{}' AND NEW.salt IS NULL AND NEW.sentence = NEW.verb || ' (erased)', false)
    )
  )
)
EXECUTE FUNCTION verbworker.refuse_end_change();
