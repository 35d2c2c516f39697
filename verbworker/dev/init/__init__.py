"""The files that `verbworker init` writes, and how it writes them."""
