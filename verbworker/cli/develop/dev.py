"""`verbworker dev`: everything on one machine; saved verbs and models reload automatically."""

import asyncio
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.output import run, say
from verbworker.app.signals import drain_on_signal
from verbworker.cli.operate.db import DSN
from verbworker.cli.operate.deploy import PATHS, deploy
from verbworker.cli.operate.worker import leave
from verbworker.errors import CannotRun, ContractInvalid, VerbworkerError

if TYPE_CHECKING:
    from verbworker.contract.registry import Registry

ENGINE = "embedded"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

PROCESSES = typer.Option(..., "--processes", help="Files or folders of models; may be repeated.", show_default=False)
SQL = typer.Option([], "--sql", help="The application's own tables: a file or folder.", show_default=False)
DATA = typer.Option(Path(".verbworker"), "--data", help="Where the database is kept.")
APP = typer.Option(..., "--app", help="Your registry, as module:attribute.", show_default=False)
CATALOGUE = typer.Option(None, "--catalogue", help="Where to write what there is to ask for.", show_default=False)
VERBS = typer.Option("", "--verbs", help="The folder of verb contracts; else as \\[tool.verblint] says.")


def dev(
    app: str = APP,
    processes: list[str] = PROCESSES,
    sql: list[Path] = SQL,
    verbs: str = VERBS,
    engine: str | None = typer.Option(None, "--engine", help=f"embedded or zeebe; else {ENGINE}.", show_default=False),
    engine_id: str | None = typer.Option(None, "--engine-id", help="The engine's name; else dev.", show_default=False),
    data: Path = DATA,
    port: int | None = typer.Option(None, "--port", min=1, max=65535, help="The database's port; else a free one."),
    console_port: int | None = typer.Option(None, "--console-port", min=0, max=65535, help="The console's; else 8092."),
    dsn: str | None = DSN,
) -> None:
    """Run a database, an engine and a worker here until Ctrl-C, and show what happens.

    The database comes with `pip install 'verbworker[dev]'` unless --dsn or VERBWORKER_DSN names one. What you save is
    taken up at once; what cannot be used is said, and what ran before goes on.
    """
    settings = config.load(dsn=dsn, engine=engine, engine_id=engine_id)
    from verbworker.dev.dev_session import DevSession
    from verbworker.dev.plan import Plan

    has_own = settings.dsn is not None or settings.dsn_file is not None
    plan = Plan(
        app=app,
        models=tuple(processes),
        sql=tuple(_sql_files(sql)),
        verbs=verbs,
        engine=settings.engine if "engine" in settings.model_fields_set else ENGINE,
        engine_id=settings.engine_id or "dev",
        tenant=settings.tenant,
    )
    session = DevSession(
        plan, data, dsn=settings.database() if has_own else None, port=port, tell=tell, console_port=console_port
    )

    async def work() -> int:
        stop = asyncio.Event()
        with stopped_by_signal(stop):
            return await session.run(stop)

    raise typer.Exit(run(work()))


def dev_hand(paths: list[str] = PATHS, app: str = APP, verbs: str = VERBS, catalogue: Path | None = CATALOGUE) -> None:
    """Deploy models and work, for `verbworker dev`, until it is gone."""
    from verbworker.app.wiring import load_app, open_app
    from verbworker.console.pages.verb_list import write
    from verbworker.dev.worker_process import Greeting, line_home, serve

    line = line_home()
    settings = config.load()
    log.set_up(as_json=settings.log_format == "json", level=settings.log_level)
    try:
        registry = load_app(app)
    except ContractInvalid as error:
        raise CannotRun(_with_place(error)) from error
    try:
        deploy(paths, app, verbs=verbs, dry_run=False, out=None, by="", dsn=None, engine_id=None, as_json=False)
    except typer.Exit as end:
        sys.stdout.flush()
        if end.exit_code:
            raise

    async def work() -> None:
        stop = asyncio.Event()
        with drain_on_signal(stop):
            async with open_app(settings, registry) as opened_app:
                if catalogue is not None:
                    write(registry, catalogue)
                greeting = Greeting(len(list(registry)), example(registry))
                await serve(line, greeting, lambda: opened_app.run(stop), stop)

    run(work())
    leave()


def tell(sentence: str) -> None:
    """Print one line immediately, also into a pipe."""
    say(sentence)
    sys.stdout.flush()


@contextmanager
def stopped_by_signal(stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` on a signal. Further signals change nothing: everything that was started is ended first."""
    loop = asyncio.get_running_loop()
    for number in _ENDING:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)


def example(registry: "Registry") -> str | None:
    """Return a sample invocation of the first workflow verb."""
    for workflow in registry.workflows.values():
        wanted = {name: argument for name, argument in workflow.args.items() if argument.required}
        words = [f":{name} {_sample(argument.type, argument.values)}" for name, argument in wanted.items()]
        return f"({' '.join([workflow.name, *words])})"
    return None


def _sample(kind: str, values: object) -> str:
    match kind, values:
        case "enum", [first, *_]:
            return f'"{first}"'
        case (("integer" | "number"), _):
            return "1"
        case "boolean", _:
            return "true"
        case _:
            return '"..."'


def _sql_files(places: list[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_dir():
            yield from sorted(place.rglob("*.sql"))
        elif place.is_file():
            yield place
        else:
            raise CannotRun(f"--sql {place}: there is no such file or folder")


def _with_place(error: ContractInvalid) -> str:
    """Return the error message, with file and line if the application's own code raised it."""
    cause = error.__cause__
    if cause is None or isinstance(cause, VerbworkerError):
        return str(error)
    if isinstance(cause, SyntaxError):
        return f"{_short(cause.filename or '?')}:{cause.lineno}: {type(cause).__name__}: {cause.msg}"
    trace = traceback.extract_tb(cause.__traceback__)
    own = [frame for frame in trace if _short(frame.filename) != frame.filename and "-packages" not in frame.filename]
    if not own:
        return str(error)
    return f"{_short(own[-1].filename)}:{own[-1].lineno}: {type(cause).__name__}: {cause}"


def _short(name: str) -> str:
    path = Path(name)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else name
