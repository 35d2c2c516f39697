"""`verbworker repl`: ask for verbs, decide at gates and read the runbook interactively."""

import io
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.cli.client_runs import run_with_client
from verbworker.cli.shared_options import App, By, Dsn, EngineId, Tenant
from verbworker.client.client import Client
from verbworker.errors import CannotRun

if TYPE_CHECKING:
    from verbworker.repl.shapes import Shapes


def repl(
    app: App = "verbs:registry",
    yes: Annotated[bool, typer.Option("--yes", help="Run lines from a pipe without confirmation.")] = False,
    tenant: Tenant = None,
    by: By = "",
    dsn: Dsn = None,
    engine_id: EngineId = None,
) -> None:
    """Start verbs, decide at gates and read the runbook interactively.

    With lines from a pipe, exits 1 if one of them is rejected and 2 if one cannot run.
    """
    settings = config.load(dsn=dsn, engine_id=engine_id, tenant=tenant)
    log.apply_to_command(settings)
    from verbworker.app.wiring import load_app
    from verbworker.repl.shapes import shapes_of

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    registry = load_app(app)
    shapes = shapes_of(registry)
    if sys.stdin.isatty() and sys.stdout.isatty():
        run_with_client(settings, lambda client: _converse(client, shapes), registry, by=by)
    else:
        # A thread waiting for a line cannot be woken, so Ctrl-C ends the process, as it ends `cat`.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise typer.Exit(run_with_client(settings, lambda client: _read(client, shapes, yes=yes), registry, by=by))


async def _converse(client: Client, shapes: "Shapes") -> None:
    try:
        from verbworker.repl.history import open_history
        from verbworker.repl.terminal import Terminal, converse
    except ModuleNotFoundError as error:
        raise CannotRun("the terminal is not installed; run: pip install 'verbworker[repl]'") from error
    from verbworker.repl.session import ReplSession
    from verbworker.repl.status_line import StatusLine

    history = open_history(os.environ)
    terminal = Terminal(shapes, history)
    session = ReplSession(client, shapes, terminal, past=history.get_strings)
    await converse(session, terminal, StatusLine(client, session.numbers))


async def _read(client: Client, shapes: "Shapes", *, yes: bool) -> int:
    from verbworker.repl.piped import Pipe, UnattendedInput, run_lines
    from verbworker.repl.session import ReplSession

    pipe = Pipe(sys.stdin.buffer)
    return await run_lines(ReplSession(client, shapes, UnattendedInput(agrees=yes), past=lambda: pipe.past), pipe)
