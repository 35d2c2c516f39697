"""`verbworker lint`: the same as `verblint check`, for those who have the runtime at hand."""

import typer

from verblint.cli.main import main


def lint(context: typer.Context) -> None:
    """Check that models are hollow. Takes every option of `verblint check`."""
    raise typer.Exit(main(["check", *context.args]))
