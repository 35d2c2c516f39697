"""`verbworker runbook`: entries, what they wait for, their events, and whether the record was changed."""

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from verbworker.app import settings as config
from verbworker.app.client import Client, run_with_client
from verbworker.app.entry_view import EntryView, FoundEntry
from verbworker.app.export_directory import exported_lines
from verbworker.app.output import answer, busy, complain, moment, print_json, say, show
from verbworker.app.settings import Settings
from verbworker.cli.shared_options import ANY_ID, LONGEST, By, Dsn, EngineId, EntryId, Json, Limit, Reason, Tenant
from verbworker.errors import CannotRun
from verbworker.runbook.event import Entry, Status, describe
from verbworker.runbook.export import check_entry
from verbworker.stores.cases.runbook import ChainCheck
from verbworker.stores.cases.stalls import Stalls

app = typer.Typer(help="The runbook: what was started, what it waits for, and what happened.", no_args_is_help=True)


@app.command("list", epilog="Example: verbworker runbook list --status parked --json")
def list_entries(
    status: Annotated[Status | None, typer.Option("--status", help="Only entries in this status.")] = None,
    verb: Annotated[str | None, typer.Option("--verb", help="Only entries of this verb.")] = None,
    stuck: Annotated[
        float,
        typer.Option("--stuck", min=0, max=LONGEST, help="Only entries without progress for this many seconds."),
    ] = 0,
    coarse: Annotated[bool, typer.Option("--coarse", help="Show progress as one word.")] = False,
    limit: Limit = 50,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """List the entries, newest first, with their progress and what they wait for."""
    if stuck and (status or verb):
        raise CannotRun("--stuck cannot be combined with --status or --verb")
    settings = config.load(dsn=dsn, tenant=tenant)

    async def read(client: Client) -> list[dict[str, object]]:
        view, stalls = EntryView(client.database), Stalls(client.database)
        if stuck:
            entries = await client.runbook.stuck(settings.tenant, longer_than=timedelta(seconds=stuck), limit=limit)
        else:
            entries = await client.runbook.entries(settings.tenant, status=status, verb=verb, limit=limit)
        rows = []
        for entry in entries:
            progress = await view.progress(entry)
            more = {
                "progress": progress.coarse if coarse else progress.detailed,
                "stalls": [asdict(stall) for stall in await stalls.of_entry(entry.entry_id)],
            }
            rows.append(asdict(entry) | more)
        return rows

    columns = ("entry_id", "status", "sentence", "progress", "created_at")
    show(run_with_client(settings, read), columns=columns, as_json=as_json)


@app.command("show", epilog=f"Example: verbworker runbook show {ANY_ID}")
def show_entry(entry_id: EntryId, tenant: Tenant = None, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show one entry and what it waits for. Exits 1 if it does not exist."""
    found = _find(config.load(dsn=dsn, tenant=tenant), entry_id)
    entry = asdict(found.entry)
    if as_json:
        more = {
            "progress": found.progress.detailed,
            "waits": [asdict(wait) for wait in found.waits],
            "trouble": found.trouble,
            "stalls": [asdict(stall) for stall in found.stalls],
        }
        print_json(entry | more)
        return
    say(f"{found.entry.sentence}: {found.entry.status}, {found.progress.detailed}")
    facts = [(name, value) for name, value in entry.items() if value not in (None, {})]
    facts += [("waits for", f"{wait.reason} (since {wait.since:%Y-%m-%d %H:%M:%S})") for wait in found.waits]
    if found.trouble:
        facts.append(("not started yet", found.trouble))
    for stall in found.stalls:
        facts += [(stall.kind.words, stall.reason), ("what to do", stall.remedy)]
    show([{"name": name, "value": value} for name, value in facts], columns=("name", "value"), as_json=False)


@app.command("events", epilog=f"Example: verbworker runbook events {ANY_ID}")
def show_events(entry_id: EntryId, tenant: Tenant = None, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show what happened to an entry, in order. Exits 1 if it does not exist."""
    events = _find(config.load(dsn=dsn, tenant=tenant), entry_id).events
    if as_json:
        print_json([asdict(event) for event in events])
        return
    for event in events:
        say(f"{moment(event.at)}  {describe(event)}")


@app.command(epilog="Example: verbworker runbook verify --json")
def verify(
    entry_id: Annotated[UUID | None, typer.Argument(help="Entry ID (default: all entries of the tenant).")] = None,
    export: Annotated[
        Path | None, typer.Option("--export", help="Verify exported entries instead: a file or a directory of files.")
    ] = None,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Verify the hash chains of events. Exits 1 if an event was changed, removed or inserted."""
    settings = config.load(dsn=dsn, tenant=tenant)
    with busy("verifying the chains"):
        if export is None:
            found = run_with_client(settings, lambda client: client.runbook.verify(settings.tenant, entry_id))
        else:
            found = _verify_export(export, entry_id)
    if as_json:
        broken = {str(entry): seq for entry, seq in found.broken.items()}
        print_json({"entries": found.entries, "events": found.events, "broken": broken})
    else:
        say(f"{found.events} events of {found.entries} entries: {len(found.broken)} chains are broken")
        for entry, seq in found.broken.items():
            complain(f"entry {entry}: the chain breaks at event {seq}")
    if found.broken:
        raise typer.Exit(1)


@app.command(epilog=f"Example: verbworker runbook cancel {ANY_ID} --reason 'opened twice'")
def cancel(
    entry_id: EntryId,
    reason: Reason,
    by: By = "",
    tenant: Tenant = None,
    dsn: Dsn = None,
    engine_id: EngineId = None,
    as_json: Json = False,
) -> None:
    """Cancel an entry; completed steps are not undone. Exits 1 if it has already ended.

    The request is stored before this command returns; a running worker carries it out.
    """
    settings = config.load(dsn=dsn, tenant=tenant, engine_id=engine_id)

    async def request(client: Client) -> Entry:
        from verbworker.work.starts.cancel import Cancellation

        cancellation = Cancellation(client.database, client.dispatches)
        return await cancellation.cancel(entry_id, tenant_id=settings.tenant, by=by, reason=reason)

    entry = run_with_client(settings, request)
    sentence = "cancelled" if entry.status is Status.CANCELLED else "requested; a worker carries it out"
    answer(sentence, asdict(entry), as_json=as_json)


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


def _find(settings: Settings, entry_id: UUID) -> FoundEntry:
    return run_with_client(settings, lambda client: EntryView(client.database).find(entry_id, settings.tenant))
