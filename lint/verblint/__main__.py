"""Entry point of `python -m verblint`."""

from verblint.cli import run

run()
