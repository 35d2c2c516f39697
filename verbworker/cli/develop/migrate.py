"""`verbworker migrate`: what is left to change until plain processes are hollow."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from verbworker.app.output import complain, print_json, say
from verbworker.cli.shared_options import Json, OptionalApp, Paths

if TYPE_CHECKING:
    from verbworker.profile.migration import MigrationReport

app = typer.Typer(help="From plain processes to hollow ones: what is left to change.", no_args_is_help=True)


@app.callback()
def migrate() -> None:
    """From plain processes to hollow ones: what is left to change."""


@app.command(epilog="Example: verbworker migrate report processes/legacy --app orders:registry")
def report(paths: Paths, app: OptionalApp = None, as_json: Json = False) -> None:
    """Report each task, mapping and condition to change until models are hollow. Exits 1 if there is any.

    With --app, the variables of its plain tasks are named as the fields they become.
    """
    # Imported here so that other commands need not wait for them.
    from verblint.settings import SettingError, find_project
    from verbworker.app.wiring import load_app
    from verbworker.errors import CannotRun
    from verbworker.profile.migration import report_on
    from verbworker.profile.verify.models import read_models

    try:
        settings = find_project().settings
    except SettingError as error:
        raise CannotRun(str(error)) from error
    registry = None if app is None else load_app(app)
    reports = [report_on(model, registry, settings) for model in read_models(paths)]
    total = sum(len(one.changes) for one in reports)
    if as_json:
        counts = Counter(change.kind for one in reports for change in one.changes)
        print_json({"models": [one.as_json() for one in reports], "counts": dict(counts), "total": total})
    else:
        _show(reports)
        if registry is None and total:
            complain("without --app nothing is known of verbs, so tasks that are verbs already are counted, too")
    raise typer.Exit(int(total > 0))


def _show(reports: "Sequence[MigrationReport]") -> None:
    for one in reports:
        for change in one.changes:
            code = f" ({change.rule})" if change.rule else ""
            say(f"{one.file}:{change.line}: {change.kind} {change.element}: {change.has}{code}")
            say(f"  {change.change}")
        if one.changes:
            counts = ", ".join(f"{kind} {number}" for kind, number in sorted(one.counts.items()))
            say(f"{one.file} is not hollow: {len(one.changes)} to change ({counts})")
        else:
            say(f"{one.file} is hollow")
