"""`verbworker repl`: ask for verbs, decide at gates and read the runbook interactively."""

import getpass
import io
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import typer

from verbworker.app import settings as config
from verbworker.app.output import run
from verbworker.app.settings import Settings
from verbworker.cli.operate.db import DSN
from verbworker.errors import CannotRun

if TYPE_CHECKING:
    from verbworker.contract.registry import Registry
    from verbworker.repl.session import Person, ReplSession
    from verbworker.repl.shapes import Shapes
    from verbworker.stores.database import Database


def repl(
    app: str = typer.Option("verbs:registry", "--app", help="Your registry, as module:attribute."),
    yes: bool = typer.Option(False, "--yes", help="Lines from a pipe run without being agreed to."),
    tenant: str | None = typer.Option(None, "--tenant", help="Whose; else VERBWORKER_TENANT.", show_default=False),
    by: str = typer.Option("", "--by", help="Who asks and decides; else the user of this process.", show_default=False),
    dsn: str | None = DSN,
    engine_id: str | None = typer.Option(
        None, "--engine-id", help="The cluster's name; else VERBWORKER_ENGINE_ID.", show_default=False
    ),
) -> None:
    """Ask for verbs, decide at gates and read the runbook, one sentence at a time.

    With lines from a pipe, exit 1 when one of them was refused and 2 when one could not run.
    """
    settings = config.load(dsn=dsn, engine_id=engine_id, tenant=tenant)
    from verbworker.app.wiring import load_app

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    registry, who = load_app(app), by or getpass.getuser()
    if sys.stdin.isatty() and sys.stdout.isatty():
        run(_talk(settings, registry, who))
    else:
        # A thread waiting for a line cannot be woken, so Ctrl-C ends the process, as it ends `cat`.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise typer.Exit(run(_read(settings, registry, who, yes=yes)))


async def _talk(settings: Settings, registry: "Registry", by: str) -> None:
    try:
        from verbworker.repl.history import open_history
        from verbworker.repl.terminal import Terminal, converse
    except ModuleNotFoundError as error:
        raise CannotRun(
            "a terminal needs prompt-toolkit, which is not installed; run: pip install 'verbworker[repl]'"
        ) from error
    from verbworker.repl.shapes import shapes_of
    from verbworker.repl.status_line import StatusLine

    shapes, history = shapes_of(registry), open_history(os.environ)
    terminal = Terminal(shapes, history)
    async with _open_session(settings, registry, shapes, terminal, by, history.get_strings) as (session, database):
        await converse(session, terminal, StatusLine(database, settings.tenant, session.numbers))


async def _read(settings: Settings, registry: "Registry", by: str, *, yes: bool) -> int:
    from verbworker.repl.piped import Nobody, Pipe, run_lines
    from verbworker.repl.shapes import shapes_of

    pipe = Pipe(sys.stdin.buffer)
    person = Nobody(agrees=yes)
    async with _open_session(settings, registry, shapes_of(registry), person, by, lambda: pipe.past) as (session, _):
        return await run_lines(session, pipe)


@asynccontextmanager
async def _open_session(
    settings: Settings,
    registry: "Registry",
    shapes: "Shapes",
    person: "Person",
    by: str,
    past: Callable[[], Sequence[str]],
) -> "AsyncIterator[tuple[ReplSession, Database]]":
    from verbworker.app.client import opened_office
    from verbworker.repl.session import ReplSession
    from verbworker.stores.database import Database

    async with opened_office(settings, registry) as office, Database(settings.database(), size=2) as database:
        yield ReplSession(office.router, database, shapes, person, tenant=settings.tenant, by=by, past=past), database
