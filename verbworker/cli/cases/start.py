"""`verbworker start`: start a verb through the same router as the REPL, the console and programs."""

import getpass
import json
from datetime import timedelta

import typer

from verbworker.app import settings as config
from verbworker.app.output import busy, complain, print_json, run, say
from verbworker.app.settings import Settings
from verbworker.cli.cases.runbook import ENGINE_ID, JSON, TENANT, entry_to_json
from verbworker.cli.operate.db import DSN
from verbworker.contract.registry import Registry
from verbworker.runbook.event import Entry


def start(
    invocation: str = typer.Argument(help='What to do: (kyc.open-case :entity "Allianz GmbH").', show_default=False),
    app: str = typer.Option(..., "--app", help="Your registry, as module:attribute.", show_default=False),
    request_key: str | None = typer.Option(
        None, "--request-key", help="Your own key: asked twice with it, it is done once.", show_default=False
    ),
    wait: float = typer.Option(0, "--wait", min=0, max=86_400, help="Seconds to wait for its end."),
    tenant: str | None = TENANT,
    by: str = typer.Option("", "--by", help="Who asks; else the user of this process.", show_default=False),
    dsn: str | None = DSN,
    engine_id: str | None = ENGINE_ID,
    as_json: bool = JSON,
) -> None:
    """Have a verb performed; exit 1 when it is refused or ended badly.

    A verb that takes long is under way when this command ends; a running worker carries it out.
    """
    settings = config.load(dsn=dsn, engine_id=engine_id, tenant=tenant)
    from verbworker.app.wiring import load_app  # takes a quarter of a second that other commands need not wait

    registry = load_app(app)
    with busy("waiting for its end" if wait else "asking for it"):
        entry = run(_ask(settings, registry, invocation, by or getpass.getuser(), request_key, wait))
    if as_json:
        print_json(entry_to_json(entry))
    else:
        say(f"{entry.status}: {entry.sentence} (entry {entry.entry_id})")
        if entry.outcome is not None:
            say(json.dumps(entry.outcome, indent=2, ensure_ascii=False))
    if entry.status in ("failed", "cancelled"):
        complain(f"it ended as {entry.status}; see: verbworker runbook show {entry.entry_id}")
        raise typer.Exit(1)


async def _ask(
    settings: Settings, registry: Registry, invocation: str, by: str, request_key: str | None, wait: float
) -> Entry:
    from verbworker.app.client import opened_office
    from verbworker.work.starts.router import Caller

    async with opened_office(settings, registry) as office:
        entry = await office.router.invoke(invocation, caller=Caller(settings.tenant, by, request_key))
        return await office.router.wait(entry.entry_id, timeout=timedelta(seconds=wait)) if wait else entry
