"""`verbworker db`: migrate the database, show its state, and drop what is no longer needed."""

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

import typer

from verbworker.app import settings as config
from verbworker.app.output import busy, complain, print_json, run, say, show
from verbworker.stores import migrations

if TYPE_CHECKING:
    from collections.abc import Callable

    from verbworker.work.upkeep.retention import Retention, Standing

app = typer.Typer(help="The database and its migrations.", no_args_is_help=True)

DSN = typer.Option(None, "--dsn", help="The Postgres database; else VERBWORKER_DSN.", show_default=False)
JSON = typer.Option(False, "--json", help="Print JSON.")
# Counting a million rows takes seconds; beyond that the exact number does not matter.
_COUNTED = 1_000_000


@app.command(epilog="Example: verbworker db migrate --dsn postgresql://kyc@localhost/cases")
def migrate(dsn: str | None = DSN, as_json: bool = JSON) -> None:
    """Apply the pending migrations. Safe to run from any number of pods at once."""
    address = config.load(dsn=dsn).database()
    with busy("applying migrations"):
        applied = run(migrations.migrate(address))
    if as_json:
        print_json({"applied": applied})
        return
    for name in applied:
        say(f"applied {name}")
    say(f"the database is up to date, {len(applied)} migration(s) applied")


@app.command(epilog="Example: verbworker db status --json")
def status(dsn: str | None = DSN, as_json: bool = JSON) -> None:
    """List every migration; exit 1 when one is not applied as shipped."""
    states = run(migrations.status(config.load(dsn=dsn).database()))
    show([asdict(state) for state in states], columns=("name", "state", "applied_at"), as_json=as_json)
    if any(state.state != "applied" for state in states):
        raise typer.Exit(1)


@app.command(epilog="Example: verbworker db retention --dry-run")
def retention(
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what is due and drop nothing."),
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """Drop what no case needs any more and was kept for long enough; exit 1 when something that is due stays.

    Workers do this all the time. Each line has what goes, its setting, for how long it is kept, how many rows were due
    (counted up to a million), since when the oldest is of no use, how many were dropped, and the rule. Nothing of an
    open case is ever dropped.
    """
    settings = config.load(dsn=dsn)
    with busy("dropping what is due" if not dry_run else "counting what is due") as tell:
        before, kept, left = run(_retain(settings, dry_run, tell))
    rows = [_standing(one, kept.dropped[one.rule.kind]) for one in before]
    if as_json:
        print_json({"dry_run": dry_run, "rules": rows, "failures": left})
    else:
        show(rows, columns=("kind", "setting", "kept", "due", "oldest", "dropped", "rule"), as_json=False)
        for kind, reason in left.items():
            complain(f"{kind}: {reason}")
    if left:
        raise typer.Exit(1)


async def _retain(
    settings: config.Settings, dry_run: bool, tell: "Callable[[str], None]"
) -> "tuple[list[Standing], Retention, dict[str, str]]":
    """Count, drop until nothing is due unless it is a dry run, and return what is due but stays."""
    # Imported here: they import everything a worker consists of.
    from verbworker.app.services import retention
    from verbworker.stores.database import Database

    await migrations.require(settings.database())
    async with Database(settings.database(), size=2) as database:
        kept = retention(settings, database)
        before = await kept.standing(most=_COUNTED)
        while not dry_run and await kept.drop_batch():
            tell(f"{sum(kept.dropped.values())} rows dropped")
        return before, kept, kept.failures | _warn_of_missing_export(settings, before)


def _warn_of_missing_export(settings: config.Settings, standing: "list[Standing]") -> dict[str, str]:
    from verbworker.work.upkeep.retention import ENTRIES

    due = next(one.due.rows for one in standing if one.rule is ENTRIES)
    if not due or settings.export_dir is not None:
        return {}
    return {ENTRIES.kind: f"{due} ended entries are due, but are exported nowhere; set VERBWORKER_EXPORT_DIR"}


def _standing(one: "Standing", dropped: int) -> dict[str, object]:
    return {
        "kind": one.rule.kind,
        "tables": list(one.rule.tables),
        "rule": one.rule.words,
        "setting": f"VERBWORKER_{one.rule.setting.upper()}",
        "kept": told_age(one.kept),
        "due": one.due.rows,
        "oldest": one.due.oldest,
        "dropped": dropped,
    }


def told_age(kept: timedelta | None) -> str:
    """Format a retention period as the setting is written."""
    if kept is None:
        return config.FOREVER
    seconds = kept.total_seconds()
    return f"{seconds / 86_400:g}d" if seconds >= 86_400 else f"{seconds:g}"
