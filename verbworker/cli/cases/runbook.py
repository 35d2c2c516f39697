"""`verbworker runbook`: entries, what they wait for, their events, and whether the record was changed."""

import getpass
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import typer

from verbworker.app import settings as config
from verbworker.app.entry_view import EntryView, FoundEntry
from verbworker.app.export_directory import exported_lines
from verbworker.app.output import LONGEST, answer, busy, complain, not_blank, print_json, run, say, show
from verbworker.app.settings import Settings
from verbworker.cli.operate.db import DSN
from verbworker.errors import CannotRun
from verbworker.runbook.event import Entry, Status, describe
from verbworker.runbook.export import check_entry
from verbworker.stores import migrations
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.runbook import ChainCheck, Runbook
from verbworker.stores.cases.stalls import Stalls
from verbworker.stores.database import Database

app = typer.Typer(help="The runbook: what was asked, what waits for whom, what happened.", no_args_is_help=True)

ENTRY = typer.Argument(help="The entry's id.", show_default=False)
TENANT = typer.Option(None, "--tenant", help="Whose; else VERBWORKER_TENANT.", show_default=False)
ENGINE_ID = typer.Option(None, "--engine-id", help="The cluster's name; else VERBWORKER_ENGINE_ID.", show_default=False)
STATUS = typer.Option(None, "--status", help="Only those in this status.", show_default=False)
ANY_ENTRY = typer.Argument(None, help="One entry; else all of the tenant.", show_default=False)
EXPORT = typer.Option(
    None, "--export", help="Check exported entries instead: a file, or a directory of them.", show_default=False
)
JSON = typer.Option(False, "--json", help="Print JSON.")

_ANY = "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40"


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """Convert an entry to its JSON form."""
    return asdict(entry)


@app.command("list", epilog="Example: verbworker runbook list --status parked --json")
def list_entries(
    status: Status | None = STATUS,
    verb: str | None = typer.Option(None, "--verb", help="Only those of this verb.", show_default=False),
    stuck: float = typer.Option(
        0, "--stuck", min=0, max=LONGEST, help="Only those that stand still for these seconds."
    ),
    coarse: bool = typer.Option(False, "--coarse", help="Say only whether each goes on, waits or is done."),
    limit: int = typer.Option(50, "--limit", min=1, max=10_000, help="At most this many."),
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """List the entries, the newest first, with how far each is and what it waits for."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def read() -> list[dict[str, object]]:
        async with opened_database(settings) as database:
            runbook, reading, stalls = Runbook(database), EntryView(database), Stalls(database)
            if stuck:
                entries = await runbook.stuck(settings.tenant, longer_than=timedelta(seconds=stuck), limit=limit)
            else:
                entries = await runbook.entries(settings.tenant, status=status, verb=verb, limit=limit)
            return [
                entry_to_json(entry)
                | {
                    "progress": (await reading.progress(entry)).render(detailed=not coarse),
                    "stalls": [asdict(stall) for stall in await stalls.of_entry(entry.entry_id)],
                }
                for entry in entries
            ]

    show(run(read()), columns=("entry_id", "status", "sentence", "progress", "created_at"), as_json=as_json)


@app.command("show", epilog=f"Example: verbworker runbook show {_ANY}")
def show_entry(
    entry_id: UUID = ENTRY, tenant: str | None = TENANT, dsn: str | None = DSN, as_json: bool = JSON
) -> None:
    """Print one entry and what it waits for; exit 1 when there is none."""
    settings = config.load(dsn=dsn, tenant=tenant)
    found = run(_read(settings, entry_id))
    entry, waits = found.entry, found.waits
    if as_json:
        more = {
            "progress": found.progress.detailed,
            "waits": [asdict(wait) for wait in waits],
            "trouble": found.trouble,
            "stalls": [asdict(stall) for stall in found.stalls],
        }
        print_json(entry_to_json(entry) | more)
        return
    say(f"{entry.sentence}: {entry.status}, {found.progress.detailed}")
    rows = [{"name": name, "value": value} for name, value in entry_to_json(entry).items() if value not in (None, {})]
    rows += [{"name": "waits for", "value": f"{wait.reason} (since {wait.since:%Y-%m-%d %H:%M:%S})"} for wait in waits]
    if found.trouble:
        rows.append({"name": "not begun yet", "value": found.trouble})
    for stall in found.stalls:
        rows.append({"name": stall.kind.words, "value": stall.reason})
        rows.append({"name": "what to do", "value": stall.remedy})
    show(rows, columns=("name", "value"), as_json=False)


@app.command("events", epilog=f"Example: verbworker runbook events {_ANY}")
def show_events(
    entry_id: UUID = ENTRY, tenant: str | None = TENANT, dsn: str | None = DSN, as_json: bool = JSON
) -> None:
    """Tell what happened to an entry, in order; exit 1 when there is none."""
    settings = config.load(dsn=dsn, tenant=tenant)
    events = run(_read(settings, entry_id)).events
    if as_json:
        print_json([asdict(event) for event in events])
        return
    for event in events:
        say(f"{event.at:%Y-%m-%d %H:%M:%S}.{event.at.microsecond // 1000:03d}  {describe(event)}")


@app.command(epilog="Example: verbworker runbook verify --json")
def verify(
    entry_id: UUID | None = ANY_ENTRY,
    export: Path | None = EXPORT,
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """Recompute the chains of events; exit 1 when one was changed, dropped or slipped in."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def read() -> ChainCheck:
        async with opened_database(settings) as database:
            return await Runbook(database).verify(settings.tenant, entry_id)

    with busy("recomputing the chains"):
        found = run(read()) if export is None else _verify_export(export, entry_id)
    if as_json:
        broken = {str(entry): seq for entry, seq in found.broken.items()}
        print_json({"entries": found.entries, "events": found.events, "broken": broken})
    else:
        say(f"{found.events} events of {found.entries} entries: {len(found.broken)} chains are broken")
        for entry, seq in found.broken.items():
            complain(f"entry {entry}: the chain breaks at event {seq}")
    if found.broken:
        raise typer.Exit(1)


@app.command(epilog=f"Example: verbworker runbook cancel {_ANY} --reason 'opened twice'")
def cancel(
    entry_id: UUID = ENTRY,
    reason: str = typer.Option(
        ..., "--reason", callback=not_blank, help="Why; kept in the runbook.", show_default=False
    ),
    by: str = typer.Option("", "--by", help="Who; else the user of this process.", show_default=False),
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    engine_id: str | None = ENGINE_ID,
    as_json: bool = JSON,
) -> None:
    """Ask for the end of an entry; what it did stays done. Exit 1 when it has ended already.

    The request is kept at once; a running worker has the engine carry it out.
    """
    settings = config.load(dsn=dsn, tenant=tenant, engine_id=engine_id)

    async def ask() -> Entry:
        from verbworker.work.starts.cancel import Cancellation

        async with opened_database(settings) as database:
            dispatches = Dispatches(database, engine_id=settings.cluster(), owner=uuid4())
            who = by or getpass.getuser()
            return await Cancellation(database, dispatches).cancel(
                entry_id, tenant_id=settings.tenant, by=who, reason=reason
            )

    entry = run(ask())
    sentence = "cancelled" if entry.status is Status.CANCELLED else "asked for; a worker carries it out"
    answer(sentence, entry_to_json(entry), as_json=as_json)


def _verify_export(place: Path, entry_id: UUID | None) -> ChainCheck:
    entries, events, broken = 0, 0, {}
    for where, line in exported_lines(place):
        try:
            checked = check_entry(line)
            found = UUID(checked.entry_id)
        except ValueError as error:
            raise CannotRun(f"{where}: {error}") from error
        if entry_id in (None, found):
            entries, events = entries + 1, events + checked.events
            if checked.broken_at is not None:
                broken[found] = checked.broken_at
    return ChainCheck(entries, events, broken)


@asynccontextmanager
async def opened_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the database for commands that mostly read."""
    await migrations.require(settings.database())
    async with Database(settings.database(), size=2) as database:
        yield database


async def _read(settings: Settings, entry_id: UUID) -> FoundEntry:
    async with opened_database(settings) as database:
        return await EntryView(database).find(entry_id, settings.tenant)
