"""`verbworker doctor`: check everything a worker depends on; one line per check, with what to do about it."""

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from verbworker.app import settings as config
from verbworker.app.output import busy, complain, run, show
from verbworker.cli.shared_options import Dsn, EngineId, EngineName, Json, OptionalApp

if TYPE_CHECKING:
    from verbworker.doctor.check_result import CheckResult


def doctor(
    models: Annotated[
        list[str] | None, typer.Argument(help="Models to compare with the deployed ones: files or folders.")
    ] = None,
    app: OptionalApp = None,
    dsn: Dsn = None,
    engine: EngineName = None,
    engine_id: EngineId = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, max=600.0, help="Seconds per check.")] = 10.0,
    as_json: Json = False,
) -> None:
    """Check everything a worker depends on. Exits 1 if something is wrong.

    Nothing is changed. Each line shows a verdict (ok, warn or wrong), what was found, and what to do. Exits 2 if there
    is nothing to check: no database is set, or the settings cannot be read.
    """
    settings = config.load(dsn=dsn, engine=engine, engine_id=engine_id)
    settings.database()
    for sentence in config.unknown_settings(os.environ):
        complain(sentence)
    # Imported here: they import the engine's client.
    from verbworker.doctor.check_result import CheckVerdict
    from verbworker.doctor.checks import run_checks, worst
    from verbworker.doctor.subject import Subject

    async def check() -> "list[CheckResult]":
        with busy("checking") as tell:
            async with Subject(settings, app=app, models=models or ()) as subject:
                return await run_checks(subject, timeout=timeout, tell=tell)

    results = run(check())
    if sys.stdout.isatty() and not as_json:
        show(list(_fold(results)), columns=("verdict", "check", "found"), as_json=False)
    else:
        show([asdict(result) for result in results], columns=("check", "verdict", "found", "fix"), as_json=as_json)
    if worst(results) is CheckVerdict.WRONG:
        raise typer.Exit(1)


def _fold(results: "list[CheckResult]") -> Iterator[dict[str, object]]:
    """Put what to do below what was found: a column of its own would be empty for every check that passes."""
    for result in results:
        yield {"verdict": result.verdict, "check": result.check, "found": result.found}
        if result.fix:
            yield {"found": f"→ {result.fix}"}
