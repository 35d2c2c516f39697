"""A new project: the files that `verbworker init` writes, and how it writes them."""
