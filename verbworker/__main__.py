"""`python -m verbworker` is the `verbworker` command."""

from verbworker.ops.cli.app import main

main()
