"""Rules as the linter uses them: what a rule is, the index, and which rules a run selects."""
