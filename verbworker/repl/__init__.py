"""The REPL: the same router as everywhere, one sentence at a time, in the words of the domain."""
