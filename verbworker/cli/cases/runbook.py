"""`verbworker runbook`: entries, what they wait for, their events, and whether the record was changed."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from verbworker.app import settings as config
from verbworker.app.output import COUNTED, answer, busy, moment, print_json, say, show, show_first
from verbworker.cli.cases.checkpoints import read_checkpoint, say_report, verify_export, write_checkpoint
from verbworker.cli.client_runs import run_with_client
from verbworker.cli.shared_options import (
    ANY_ID,
    LONGEST,
    By,
    Cursor,
    Dsn,
    EngineId,
    EntryId,
    Json,
    Limit,
    Reason,
    Tenant,
    id_or_beginning,
)
from verbworker.client.client import Client
from verbworker.client.records import EntryDetail, EntryRecord, EventRecord, PositionRecord
from verbworker.errors import CannotRun
from verbworker.runbook.event import Status

app = typer.Typer(help="The runbook: what was started, what it waits for, and what happened.", no_args_is_help=True)


@app.command("list", epilog="Example: verbworker runbook list --status parked --json")
def list_entries(
    status: Annotated[Status | None, typer.Option("--status", help="Only entries in this status.")] = None,
    verb: Annotated[str | None, typer.Option("--verb", help="Only entries of this verb.")] = None,
    stuck: Annotated[
        float,
        typer.Option(
            "--stuck",
            min=0,
            max=LONGEST,
            help="Only open entries that made no progress for this many seconds, with the reason.",
        ),
    ] = 0,
    coarse: Annotated[bool, typer.Option("--coarse", help="Show progress as one word.")] = False,
    cursor: Cursor = None,
    limit: Limit = 50,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """List the entries, newest first, with their progress and what they wait for.

    With --stuck: entries the engine should have moved, verbs beyond their time, jobs held for a person, and starts,
    results, decisions and cancel requests that the engine has not taken; the longest wait first. Entries that wait as
    planned, for a person, a message or a timer, are not stuck.
    """
    if stuck and (status or verb):
        raise CannotRun("--stuck cannot be combined with --status or --verb")
    settings = config.load(dsn=dsn, tenant=tenant)

    filters: dict[str, Any] = {"status": status, "verb": verb}
    if stuck:
        filters = {"stuck_for": timedelta(seconds=stuck)}
    most = limit if as_json else limit + COUNTED
    page = run_with_client(settings, lambda client: client.entries(**filters, limit=most, cursor=cursor))
    if coarse:
        page = page.with_coarse_progress()
    if as_json:
        print_json(page.model_dump(mode="json"))
        return
    rows = [{**one.model_dump(mode="json"), "status": one.status_words} for one in show_first(page.entries, limit)]
    columns = ("entry_id", "status", "sentence", *(("reason", "since") if stuck else ("progress", "created_at")))
    show(rows, columns=columns, as_json=False)


@app.command("show", epilog=f"Example: verbworker runbook show {ANY_ID}")
def show_entry(entry_id: EntryId, tenant: Tenant = None, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show one entry and what it waits for. Exits 1 if it does not exist."""

    async def read(client: Client) -> EntryDetail:
        return await (await client.entry(entry_id)).read()

    found = run_with_client(config.load(dsn=dsn, tenant=tenant), read)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    # An ended entry's progress repeats its status.
    say(f"{found.sentence}: {found.status_words}, {found.progress.removesuffix(f', {found.status}')}")
    entry = found.model_dump(include=set(EntryRecord.model_fields))
    facts = [(name, value) for name, value in entry.items() if value not in (None, {})]
    facts += [("waits for", f"{wait.reason} (since {wait.since:%Y-%m-%d %H:%M:%S})") for wait in found.waits]
    facts += [("operate", found.operate_url)] if found.operate_url else []
    for event in found.incidents:
        todo = f"see why, fix it, then resolve it: verbworker incidents show {entry_id}"
        facts += [("incident", event.sentence), ("what to do", todo)]
    if found.failure is not None:
        facts.append(("reason", found.failure.sentence))
    if found.trouble:
        facts.append(("not started yet", found.trouble))
    facts += [("decision not taken yet", decision.words) for decision in found.unsent]
    facts += [("released", job.words) for job in found.released]
    for stall in found.stalls:
        facts += [(stall.kind.words, stall.reason), ("what to do", stall.remedy)]
    show([{"name": name, "value": value} for name, value in facts], columns=("name", "value"), as_json=False)


@app.command(epilog=f"Example: verbworker runbook where {ANY_ID}")
def where(
    entry_id: EntryId, tenant: Tenant = None, dsn: Dsn = None, engine_id: EngineId = None, as_json: Json = False
) -> None:
    """Show where an entry is in its model, as the engine sees it. Exits 1 if it does not exist."""
    settings = config.load(dsn=dsn, tenant=tenant, engine_id=engine_id)

    async def read(client: Client) -> list[PositionRecord]:
        return await (await client.entry(entry_id)).positions()

    found = run_with_client(settings, read)
    columns = ("element_id", "type", "since", "message_name", "correlation_key")
    show([one.model_dump(mode="json") for one in found], columns=columns, as_json=as_json)


@app.command("events", epilog=f"Example: verbworker runbook events {ANY_ID}")
def show_events(entry_id: EntryId, tenant: Tenant = None, dsn: Dsn = None, as_json: Json = False) -> None:
    """Show what happened to an entry, in order. Exits 1 if it does not exist."""

    async def read(client: Client) -> list[EventRecord]:
        return await (await client.entry(entry_id)).history()

    events = run_with_client(config.load(dsn=dsn, tenant=tenant), read)
    if as_json:
        print_json([event.model_dump(mode="json") for event in events])
        return
    for event in events:
        say(f"{moment(event.at)}  {event.sentence}")


@app.command(epilog="Example: verbworker runbook verify --against checkpoint.json")
def verify(
    which: Annotated[
        str | None,
        typer.Argument(
            callback=id_or_beginning, metavar="[ENTRY_ID]", help="Entry ID (default: all entries of the tenant)."
        ),
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", help="Verify exported entries instead: a file or a directory of files.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Verify everything up to a checkpoint that `runbook seal` wrote to this file."),
    ] = None,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Verify the record. Exits 1 if something in it was changed, removed or inserted, and names each place.

    Verified are the chain of events of each entry, what was asked, how it ended and what was decided, the seals that
    chain all entries of the tenant, and the payloads of record with their flags; with the keys of the workers
    (VERBWORKER_SEAL_KEYS, VERBWORKER_INTEGRITY_KEYS) also the signatures.
    """
    settings = config.load(dsn=dsn, tenant=tenant)
    if export is not None and against is not None:
        raise CannotRun("--export cannot be combined with --against: exported files have no seals")
    with busy("verifying the record"):
        if export is not None:
            found = verify_export(export, which)
        else:
            checkpoint = None if against is None else read_checkpoint(against)
            found = run_with_client(settings, lambda client: client.verify(which, against=checkpoint))
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        say_report(found, is_export=export is not None)
    if found.findings:
        raise typer.Exit(1)


@app.command(epilog="Example: verbworker runbook seal --out checkpoint.json")
def seal(
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the checkpoint (default: standard output).")
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Seal the record of all tenants up to now, and write a checkpoint. Keep it away from the database.

    Workers seal continuously; a checkpoint proves later that nothing before it was changed or removed, even by the
    owner of the database: verbworker runbook verify --against FILE. It is signed if VERBWORKER_SEAL_KEYS is set.
    """
    text = run_with_client(config.load(dsn=dsn), lambda client: client.seal())
    if out is None:
        say(text.rstrip())
        return
    checkpoint = write_checkpoint(out, text)
    sentence = f"{len(checkpoint.tenants)} tenant(s) sealed; the checkpoint is in {out}"
    answer(sentence, {"file": str(out), **json.loads(text)}, as_json=as_json)


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

    entry = run_with_client(settings, lambda client: client.cancel(entry_id, reason), by=by)
    sentence = "cancelled" if entry.status is Status.CANCELLED else "requested; a worker carries it out"
    answer(sentence, entry.model_dump(mode="json"), as_json=as_json)
