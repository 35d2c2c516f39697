"""`python -m verblint`."""

from verblint.command import run

run()
