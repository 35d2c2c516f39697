"""`verbworker doctor`: check everything a worker depends on; one line per check, with what to do about it."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from verbworker.app import settings as config
from verbworker.app.output import busy, run, show
from verbworker.cli.operate.db import DSN

if TYPE_CHECKING:
    from verbworker.doctor.check_result import CheckResult

MODELS = typer.Argument(None, help="Models to compare with what is deployed: files or folders.", show_default=False)
APP = typer.Option(None, "--app", help="Your registry, as module:attribute.", show_default=False)


def doctor(
    models: list[str] = MODELS,
    app: str | None = APP,
    dsn: str | None = DSN,
    engine: str | None = typer.Option(None, "--engine", help="zeebe or embedded; else VERBWORKER_ENGINE."),
    engine_id: str | None = typer.Option(None, "--engine-id", help="The cluster's name; else VERBWORKER_ENGINE_ID."),
    timeout: float = typer.Option(10.0, "--timeout", min=0.1, max=600.0, help="Seconds that each check may take."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Look at everything a worker stands on; exit 1 when something is wrong.

    Nothing is changed. Each line has a verdict (ok, warn or wrong), what was found, and what to do. Exit 2 means that
    there was nothing to look at: no database is set, or the settings cannot be read.
    """
    settings = config.load(dsn=dsn, engine=engine, engine_id=engine_id)
    settings.database()
    # Imported here: they import the engine's client.
    from verbworker.doctor.check_result import CheckVerdict
    from verbworker.doctor.checks import examine, worst
    from verbworker.doctor.subject import Subject

    async def look() -> "list[CheckResult]":
        with busy("looking") as tell:
            async with Subject(settings, app=app, models=models or ()) as patient:
                return await examine(patient, timeout=timeout, tell=tell)

    findings = run(look())
    if sys.stdout.isatty() and not as_json:
        show(list(_fold(findings)), columns=("verdict", "check", "found"), as_json=False)
    else:
        show([asdict(finding) for finding in findings], columns=("check", "verdict", "found", "fix"), as_json=as_json)
    if worst(findings) is CheckVerdict.WRONG:
        raise typer.Exit(1)


def _fold(findings: "list[CheckResult]") -> Iterator[dict[str, object]]:
    """Put what to do below what was found: a column of its own would be empty for every check that passes."""
    for finding in findings:
        yield {"verdict": finding.verdict, "check": finding.check, "found": finding.found}
        if finding.fix:
            yield {"found": f"→ {finding.fix}"}
