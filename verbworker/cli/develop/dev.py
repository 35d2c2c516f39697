"""`verbworker dev`: everything on one machine; saved verbs and models reload automatically."""

import asyncio
import getpass
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.output import complain, run, tell
from verbworker.app.signals import run_until_signal
from verbworker.cli.client_runs import run_with_resources
from verbworker.cli.operate.deploy import deploy
from verbworker.cli.operate.worker import leave, run_beside_verbs
from verbworker.cli.shared_options import App, Dsn, EngineId, EngineName, Paths, VerbsFolder
from verbworker.errors import CannotRun, ContractInvalid, Refused, VerbworkerError

if TYPE_CHECKING:
    from verbworker.contract.registry import Registry

ENGINE = "embedded"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def dev(
    app: App,
    processes: Annotated[list[str], typer.Option("--processes", help="Models: a file or folder; may be repeated.")],
    sql: Annotated[
        list[Path] | None, typer.Option("--sql", help="SQL of your own tables: a file or folder; may be repeated.")
    ] = None,
    verbs: VerbsFolder = "",
    engine: EngineName = None,
    engine_id: EngineId = None,
    data: Annotated[Path, typer.Option("--data", help="Folder of the database.")] = Path(".verbworker"),
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Port of the database (default: a free one).")
    ] = None,
    console_port: Annotated[
        int | None, typer.Option("--console-port", min=0, max=65535, help="Port of the console (default: 8092).")
    ] = None,
    dsn: Dsn = None,
) -> None:
    """Run a database, an engine and a worker until Ctrl-C, and show what happens.

    The default engine is the embedded one, with the engine ID dev. The database comes with `pip install
    'verbworker\\[dev]'` unless --dsn or VERBWORKER_DSN names one. Saved changes reload automatically. If one is invalid
    you see why, and the previous version keeps running.
    """
    settings = config.load(dsn=dsn, engine=engine, engine_id=engine_id)
    for sentence in config.unknown_settings(os.environ):
        complain(sentence)
    from verbworker.dev.dev_session import DevSession
    from verbworker.dev.files import sql_files
    from verbworker.dev.plan import Plan

    sql_files(sql or [])
    has_own = settings.dsn is not None or settings.dsn_file is not None
    plan = Plan(
        app=app,
        models=tuple(processes),
        sql=tuple(sql or []),
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


def dev_worker(
    paths: Paths,
    app: App,
    verbs: VerbsFolder = "",
    catalogue: Annotated[Path | None, typer.Option("--catalogue", help="Output file for the list of verbs.")] = None,
) -> None:
    """Deploy models and run their verbs as a part of `verbworker dev`."""
    from verbworker.app.wiring import load_app, open_app
    from verbworker.console.pages.verb_list import write
    from verbworker.dev.worker_process import Greeting, line_home, serve

    line = line_home()
    settings = config.load()
    log.apply(settings)
    try:
        registry = load_app(app)
    except ContractInvalid as error:
        raise CannotRun(_with_place(error)) from error
    _verify(paths, registry, verbs)
    try:
        deploy(paths, app, verbs, by=getpass.getuser())
    except typer.Exit as end:
        sys.stdout.flush()
        if end.exit_code:
            raise

    asked = example(registry)
    command = _plain_example(settings) if asked is None else f"verbworker start '{asked}' --app {app}"

    async def work(stop: asyncio.Event) -> None:
        async with open_app(settings, registry) as opened_app:
            if catalogue is not None:
                write(registry, catalogue)
            greeting = Greeting(len(list(registry)), len(registry.tasks), command)
            await serve(line, greeting, lambda: opened_app.run(stop), stop)

    run(run_until_signal(work), run_beside_verbs)
    leave()


def _verify(paths: list[str], registry: "Registry", verbs: str) -> None:
    """Print where code, contracts and models disagree; raise `Refused` if a case would stop because of it."""
    from verblint.report import render
    from verbworker.profile.verify.models import read_models
    from verbworker.profile.verify.rules import RULES
    from verbworker.profile.verify.sources import open_sources
    from verbworker.profile.verify.verifier import check_application

    models = read_models(paths)
    report, is_stopping = check_application(models, open_sources(models, verbs), registry)
    if report.findings:
        tell(render(report, "full", colour=sys.stdout.isatty(), rules=RULES).rstrip("\n"))
    if is_stopping:
        raise Refused("cases would stop because of these errors; fix them first")


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


def _plain_example(settings: config.Settings) -> str | None:
    """Return a command that starts a deployed process that is not hollow."""
    from verbworker.model.weave import PLAIN_PROCESS
    from verbworker.stores.deployments import Deployments

    cluster = settings.cluster()
    found = run_with_resources(settings, lambda opened: Deployments(opened.database, engine_id=cluster).list())
    plain = next((one.process_id for one in found if one.verb == PLAIN_PROCESS), None)
    return None if plain is None else f"verbworker start-plain {plain} --variables '{{...}}'"


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
