"""`verbworker start`: start a verb through the same router as the REPL, the console and programs."""

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from verbworker.app import settings as config
from verbworker.app.client import Client, run_with_client
from verbworker.app.output import busy, complain, print_json, say
from verbworker.cli.shared_options import App, By, Dsn, EngineId, Json, Tenant
from verbworker.runbook.event import Entry


def start(
    invocation: Annotated[str, typer.Argument(help='What to start: (kyc.open-case :entity "Allianz GmbH").')],
    app: App,
    request_key: Annotated[
        str | None, typer.Option("--request-key", help="Your own key; a repeated request with it starts nothing.")
    ] = None,
    wait: Annotated[float, typer.Option("--wait", min=0, max=86_400, help="Seconds to wait for the end.")] = 0,
    tenant: Tenant = None,
    by: By = "",
    dsn: Dsn = None,
    engine_id: EngineId = None,
    as_json: Json = False,
) -> None:
    """Start a verb. Exits 1 if it is rejected or fails.

    A workflow verb is still running when this command returns; a worker carries it out.
    """
    settings = config.load(dsn=dsn, engine_id=engine_id, tenant=tenant)
    from verbworker.app.wiring import load_app  # takes a quarter of a second that other commands need not wait
    from verbworker.work.starts.router import Caller

    async def invoke(client: Client) -> Entry:
        entry = await client.router.invoke(invocation, caller=Caller(settings.tenant, by, request_key))
        return await client.router.wait(entry.entry_id, timeout=timedelta(seconds=wait)) if wait else entry

    registry = load_app(app)
    with busy("waiting for the end" if wait else "starting"):
        entry = run_with_client(settings, invoke, registry)
    if as_json:
        print_json(asdict(entry))
    else:
        say(f"{entry.status}: {entry.sentence} (entry {entry.entry_id})")
        if entry.outcome is not None:
            say(json.dumps(entry.outcome, indent=2, ensure_ascii=False))
    if entry.status in ("failed", "cancelled"):
        complain(f"the entry ended as {entry.status}; run: verbworker runbook show {entry.entry_id}")
        raise typer.Exit(1)
