"""`verbworker start`: start a verb through the same router as the REPL, the console and programs."""

import json
from typing import Annotated

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.output import busy, complain, print_json, say
from verbworker.cli.client_runs import run_with_client
from verbworker.cli.shared_options import App, By, Dsn, EngineId, Json, Tenant
from verbworker.client.client import Client
from verbworker.client.records import EntryRecord
from verbworker.contract.invocation import parse


def start(
    invocation: Annotated[str, typer.Argument(help='What to start: (kyc.open-case :entity "Allianz GmbH").')],
    app: App,
    request_key: Annotated[
        str | None, typer.Option("--request-key", help="Your own key; a repeated request with it starts nothing.")
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, max=86_400, help="Seconds to wait for the end; exits 1 without one.")
    ] = 0,
    tenant: Tenant = None,
    by: By = "",
    dsn: Dsn = None,
    engine_id: EngineId = None,
    as_json: Json = False,
) -> None:
    """Start a verb. Exits 1 if it is rejected or fails.

    A workflow verb is still running when this command returns; a worker carries it out. With --wait, the exit code is 0
    only if it completed in that time; otherwise it goes on, for example until a person decides.
    """
    settings = config.load(dsn=dsn, engine_id=engine_id, tenant=tenant)
    log.apply_to_command(settings)
    from verbworker.app.wiring import load_app  # takes a quarter of a second that other commands need not wait

    async def invoke(client: Client) -> EntryRecord:
        return await (await client.start(asked.verb, asked.args, request_key=request_key)).wait(timeout=wait)

    asked = parse(invocation)

    registry = load_app(app)
    with busy("waiting for the end" if wait else "starting"):
        entry = run_with_client(settings, invoke, registry, by=by)
    if as_json:
        print_json(entry.model_dump(mode="json"))
    else:
        say(f"{entry.status}: {entry.sentence} (entry {entry.entry_id})")
        if entry.outcome is not None:
            say(json.dumps(entry.outcome, indent=2, ensure_ascii=False))
    if entry.status in ("failed", "cancelled"):
        complain(f"the entry ended as {entry.status}; run: verbworker runbook show {entry.entry_id}")
        raise typer.Exit(1)
    if wait and not entry.is_final:
        complain(f"the entry did not end within {wait:g} seconds; run: verbworker runbook show {entry.entry_id}")
        raise typer.Exit(1)
