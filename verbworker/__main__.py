"""Entry point of `python -m verbworker`."""

from verbworker.cli.app import main

main()
