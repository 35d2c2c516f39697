"""`verbworker db`: migrate the database, show its state, and drop what is no longer needed."""

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from verbworker.app import settings as config
from verbworker.app.output import busy, complain, print_json, run, say, show
from verbworker.cli.client_runs import run_with_resources
from verbworker.cli.shared_options import Dsn, Json
from verbworker.client.resources import Resources
from verbworker.stores import migrations
from verbworker.stores.access import roles as database_roles

if TYPE_CHECKING:
    from collections.abc import Callable

    from verbworker.work.upkeep.retention import Retention, RuleState

app = typer.Typer(help="The database and its migrations.", no_args_is_help=True)

# Counting a million rows takes seconds; beyond that the exact number does not matter.
_COUNTED = 1_000_000  # rows per table; beyond that the exact number helps no one and counting takes seconds


@app.command(epilog="Example: verbworker db migrate --dsn postgresql://kyc@localhost/cases")
def migrate(
    roles: Annotated[bool, typer.Option("--roles", help="Also create the roles and grant them, as db roles.")] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Apply the pending migrations. Any number of processes may run it concurrently.

    A database that was given the roles before gets their grants anew, so that new tables are in them.
    """
    address = config.load(dsn=dsn).database()
    with busy("applying migrations"):
        applied = run(migrations.migrate(address))
        if roles:
            run(database_roles.apply(address))
    if as_json:
        print_json({"applied": applied})
        return
    for name in applied:
        say(f"applied {name}")
    say(f"the database is up to date, {len(applied)} migration(s) applied")


@app.command(epilog="Example: verbworker db status --json")
def status(dsn: Dsn = None, as_json: Json = False) -> None:
    """List every migration. Exits 1 if one is not applied as shipped."""
    states = run(migrations.status(config.load(dsn=dsn).database()))
    show([asdict(state) for state in states], columns=("name", "state", "applied_at"), as_json=as_json)
    if any(state.state != "applied" for state in states):
        raise typer.Exit(1)


@app.command("roles", epilog="Example: verbworker db roles --dsn postgresql://owner@localhost/cases")
def grant_roles(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the roles and change nothing.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Print the statements for psql and change nothing.")] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Create the roles of the database and grant what each may do; then list them with their members.

    Run it as the owner of the tables, once: `db migrate` repeats it after each migration. The names of the four roles
    are fixed; logins have any names and become members, by GRANT verbworker_worker TO your_login. With --dry-run it
    exits 1 if a role is missing.
    """
    if sql:
        for line in database_roles.statements().splitlines():
            say(line)
        return
    address = config.load(dsn=dsn).database()
    if not dry_run:
        with busy("granting roles"):
            run(database_roles.apply(address))
    states = run(database_roles.states(address))
    rows = [{"role": one.role, "exists": one.exists, "members": list(one.members)} for one in states]
    show(rows, columns=("role", "exists", "members"), as_json=as_json)
    if not all(one.exists for one in states):
        raise typer.Exit(1)


@app.command(epilog="Example: verbworker db retention --dry-run")
def retention(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what is due and delete nothing.")] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Delete rows that have exceeded their retention period. Exits 1 if rows that are due remain.

    Workers do this continuously. Each line shows the kind of row, its setting, the period, how many rows were due
    (counted up to a million), since when the oldest is due, how many were deleted, the rule, and why ended entries are
    kept. Rows of open cases are never deleted.
    """
    settings = config.load(dsn=dsn)
    with busy("counting rows that are due" if dry_run else "deleting rows that are due") as tell:
        before, kept, left, why = run_with_resources(
            settings, lambda resources: _retain(resources, dry_run, tell), changes=not dry_run
        )
    rows = [_row_of(one, kept.dropped[one.rule.kind], why.get(one.rule.kind, "")) for one in before]
    if as_json:
        print_json({"dry_run": dry_run, "rules": rows, "failures": left})
    else:
        show(rows, columns=("kind", "setting", "kept", "due", "oldest", "dropped", "rule", "why"), as_json=False)
        for kind, reason in left.items():
            complain(f"{kind}: {reason}")
    if left:
        raise typer.Exit(1)


@app.command(epilog="Example: verbworker db quotas --json")
def quotas(dsn: Dsn = None, as_json: Json = False) -> None:
    """Show what each tenant uses and how much of its quotas that is, the fullest first.

    Open cases and messages that no case has taken are counted now; starts, messages and their bytes within this minute,
    and only for tenants with such a quota.
    """
    from verbworker.stores.tenants.tenant_use import TenantUse

    settings = config.load(dsn=dsn)
    found = run_with_resources(
        settings, lambda resources: TenantUse(resources.database).shares(settings.quotas()), changes=False
    )
    rows = [
        {
            "tenant": one.tenant_id,
            "quota": one.quota,
            "used": one.used,
            "limit": one.limit,
            "share": round(one.share, 3),
        }
        for one in found
    ]
    show(rows, columns=("tenant", "quota", "used", "limit", "share"), as_json=as_json)


async def _retain(
    resources: Resources, dry_run: bool, tell: "Callable[[str], None]"
) -> "tuple[list[RuleState], Retention, dict[str, str], dict[str, str]]":
    """Count, and delete until nothing is due unless it is a dry run; return what is due but remains, and why."""
    from verbworker.app.services import retention  # imports everything a worker consists of
    from verbworker.work.upkeep.retention import ENTRIES

    kept = retention(resources.settings, resources.database)
    before = await kept.read_states(most=_COUNTED)
    while not dry_run and await kept.drop_batch():
        tell(f"{sum(kept.dropped.values())} rows deleted")
    why = {ENTRIES.kind: await kept.explain_entries(most=_COUNTED)}
    return before, kept, kept.failures | _warn_of_missing_export(resources.settings, before), why


def _warn_of_missing_export(settings: config.Settings, states: "list[RuleState]") -> dict[str, str]:
    from verbworker.work.upkeep.retention import ENTRIES

    due = next(one.due.rows for one in states if one.rule is ENTRIES)
    if not due or settings.export_dir is not None:
        return {}
    return {ENTRIES.kind: f"{due} ended entries are due, but no export directory is set; set VERBWORKER_EXPORT_DIR"}


def _row_of(one: "RuleState", dropped: int, why: str) -> dict[str, object]:
    return {
        "kind": one.rule.kind,
        "tables": list(one.rule.tables),
        "rule": one.rule.words,
        "setting": f"VERBWORKER_{one.rule.setting.upper()}",
        "kept": format_age(one.kept),
        "due": one.due.rows,
        "oldest": one.due.oldest,
        "dropped": dropped,
        "why": why,
    }


def format_age(kept: timedelta | None) -> str:
    """Format a retention period as the setting is written."""
    if kept is None:
        return config.FOREVER
    seconds = kept.total_seconds()
    return f"{seconds / 86_400:g}d" if seconds >= 86_400 else f"{seconds:g}"
