-- Why the engine does not have a decision yet: its answer to the last attempt, in words. Null before one failed, and once
-- it has the decision.
ALTER TABLE verbworker.gate_decision ADD COLUMN last_error text;
