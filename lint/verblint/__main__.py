"""Entry point of `python -m verblint`."""

from verblint.cli.entry import run

run()
