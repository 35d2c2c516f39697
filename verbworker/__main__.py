"""`python -m verbworker` is the `verbworker` command."""

from verbworker.cli.app import main

main()
