"""The REPL: an interactive session on the same router as every other surface, in the words of the domain."""
