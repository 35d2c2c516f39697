"""`verbworker runbook`: what was asked, what waits for whom, what happened, and whether the record was touched."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any
from uuid import UUID

import typer

from verbworker.errors import NotFound
from verbworker.event import Entry, Event, Open, Status, told
from verbworker.ops import config
from verbworker.ops.cli.db import DSN
from verbworker.ops.cli.output import complain, run, say, show
from verbworker.ops.config import Settings
from verbworker.stores import _schema
from verbworker.stores._database import Database
from verbworker.stores.runbook import Runbook

app = typer.Typer(help="The runbook: what was asked, what waits for whom, what happened.", no_args_is_help=True)

ENTRY = typer.Argument(help="The entry's id.", show_default=False)
TENANT = typer.Option(None, "--tenant", help="Whose; else VERBWORKER_TENANT.", show_default=False)
ENGINE_ID = typer.Option(None, "--engine-id", help="The cluster's name; else VERBWORKER_ENGINE_ID.", show_default=False)
STATUS = typer.Option(None, "--status", help="Only those in this status.", show_default=False)
ANY_ENTRY = typer.Argument(None, help="One entry; else all of the tenant.", show_default=False)
JSON = typer.Option(False, "--json", help="Print JSON.")


def shown(entry: Entry) -> dict[str, Any]:
    """An entry as JSON shows it."""
    return asdict(entry)


@app.command("list")
def list_entries(
    status: Status | None = STATUS,
    verb: str | None = typer.Option(None, "--verb", help="Only those of this verb.", show_default=False),
    limit: int = typer.Option(50, "--limit", min=1, max=10_000, help="At most this many."),
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """List the entries, the newest first, with what each waits for."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def read() -> list[dict[str, object]]:
        async with opened_runbook(settings) as runbook:
            entries = await runbook.entries(settings.tenant, status=status, verb=verb, limit=limit)
            return [shown(entry) | {"waits_for": _reasons(await runbook.waits(entry.entry_id))} for entry in entries]

    show(run(read()), columns=("entry_id", "status", "sentence", "waits_for", "created_at"), as_json=as_json)


@app.command("show")
def show_entry(
    entry_id: UUID = ENTRY, tenant: str | None = TENANT, dsn: str | None = DSN, as_json: bool = JSON
) -> None:
    """Print one entry and what it waits for; exit 1 when there is none."""
    settings = config.load(dsn=dsn, tenant=tenant)
    entry, waits, _ = run(_read(settings, entry_id))
    if as_json:
        say(json.dumps(shown(entry) | {"waits": [asdict(wait) for wait in waits]}, default=str, indent=2))
        return
    say(f"{entry.sentence}: {entry.status}")
    rows = [{"name": name, "value": value} for name, value in shown(entry).items() if value not in (None, {})]
    rows += [{"name": "waits for", "value": f"{wait.reason} (since {wait.since:%Y-%m-%d %H:%M:%S})"} for wait in waits]
    show(rows, columns=("name", "value"), as_json=False)


@app.command("events")
def show_events(
    entry_id: UUID = ENTRY, tenant: str | None = TENANT, dsn: str | None = DSN, as_json: bool = JSON
) -> None:
    """Tell what happened to an entry, in order; exit 1 when there is none."""
    settings = config.load(dsn=dsn, tenant=tenant)
    _, _, events = run(_read(settings, entry_id))
    if as_json:
        say(json.dumps([asdict(event) | {"hash": event.hash.hex()} for event in events], default=str, indent=2))
        return
    for event in events:
        say(f"{event.at:%Y-%m-%d %H:%M:%S}.{event.at.microsecond // 1000:03d}  {told(event)}")


@app.command()
def verify(
    entry_id: UUID | None = ANY_ENTRY,
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """Recompute the chains of events; exit 1 when one was changed, dropped or slipped in."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def read() -> Any:
        async with opened_runbook(settings) as runbook:
            return await runbook.verify(settings.tenant, entry_id)

    found = run(read())
    if as_json:
        broken = {str(entry): seq for entry, seq in found.broken.items()}
        say(json.dumps({"entries": found.entries, "events": found.events, "broken": broken}, indent=2))
    else:
        say(f"{found.events} events of {found.entries} entries: {len(found.broken)} chains are broken")
        for entry, seq in found.broken.items():
            complain(f"entry {entry}: the chain breaks at event {seq}")
    if found.broken:
        raise typer.Exit(1)


@asynccontextmanager
async def opened_runbook(settings: Settings) -> AsyncIterator[Runbook]:
    """The runbook alone, for those who only read."""
    await _schema.require(settings.database())
    async with Database(settings.database(), size=2) as database:
        yield Runbook(database)


async def _read(settings: Settings, entry_id: UUID) -> tuple[Entry, list[Open], list[Event]]:
    async with opened_runbook(settings) as runbook:
        entry = await runbook.entry(entry_id, tenant_id=settings.tenant)
        if entry is None:
            raise NotFound(f"the tenant {settings.tenant} has no entry {entry_id}")
        return entry, await runbook.waits(entry_id), await runbook.events(entry_id)


def _reasons(waits: list[Open]) -> str:
    return "; ".join(wait.reason for wait in waits)
