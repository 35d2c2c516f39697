"""`verbworker console`: serve the runbook in a browser until stopped."""

import asyncio
import sys

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.output import run, say
from verbworker.app.signals import drain_on_signal
from verbworker.cli.operate.db import DSN
from verbworker.errors import CannotRun

APP = typer.Option(None, "--app", help="Your registry, as module:attribute, for the page of verbs.", show_default=False)
HOST = typer.Option(None, "--host", help="Where to listen; else 127.0.0.1.", show_default=False)
PORT = typer.Option(None, "--port", min=0, max=65535, help="Its port; else 8092.", show_default=False)
TENANT = typer.Option(
    None, "--tenant", help="Whose unknown jobs are shown; else VERBWORKER_TENANT.", show_default=False
)
ENGINE = typer.Option(None, "--engine", help="The process engine: zeebe or embedded.", show_default=False)
ENGINE_ID = typer.Option(None, "--engine-id", help="The cluster's name; else VERBWORKER_ENGINE_ID.", show_default=False)


def console(
    host: str | None = HOST,
    port: int | None = PORT,
    app: str | None = APP,
    tenant: str | None = TENANT,
    engine: str | None = ENGINE,
    engine_id: str | None = ENGINE_ID,
    dsn: str | None = DSN,
) -> None:
    """Show the runbook in a browser: entries, gates to decide, incidents, dead letters, verbs.

    People log in by a key or at an OpenID issuer, as VERBWORKER_CONSOLE_CREDENTIALS_FILE says. SIGTERM or SIGINT ends
    it when the requests under way are answered.
    """
    settings = config.load(dsn=dsn, tenant=tenant, engine=engine, engine_id=engine_id)
    log.set_up(as_json=settings.log_format == "json", level=settings.log_level)
    try:
        from verbworker.console.pages.verb_list import cards
        from verbworker.console.server import serve
        from verbworker.console.settings import load
    except ModuleNotFoundError as error:
        raise CannotRun("the console is not installed; run: pip install 'verbworker[console]'") from error
    from verbworker.app.wiring import load_app

    known = None if app is None else cards(load_app(app))
    wanted = load(host=host, port=port)

    async def work() -> None:
        stop = asyncio.Event()
        with drain_on_signal(stop):
            await serve(settings, wanted, lambda: known, stop, opened=_tell)

    run(work())


def _tell(home: str) -> None:
    say(f"the console is at {home}")
    sys.stdout.flush()
