"""`verbworker lint`: the same as `verblint check`, for environments that have the runtime."""

import typer

from verblint.cli import run_command


def lint(context: typer.Context) -> None:
    """Check that models are hollow. Takes every option of `verblint check`."""
    raise typer.Exit(run_command(["check", *context.args]))
