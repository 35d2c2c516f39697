"""`python -m verblint`."""

from verblint.cli.entry import run

run()
