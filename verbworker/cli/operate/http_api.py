"""`verbworker api` and `ingress`: cases and messages over HTTP, and the description of that for programs."""

from typing import Annotated

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.output import print_json, run
from verbworker.app.signals import run_until_signal
from verbworker.cli.shared_options import App, Dsn, EngineId, Host
from verbworker.errors import CannotRun

app = typer.Typer(help="The HTTP API: cases and messages for programs.", no_args_is_help=True)

_MISSING = "the HTTP API is not installed; run: pip install 'verbworker[ingress]'"
Open = Annotated[bool, typer.Option("--insecure-no-auth", help="Serve without authentication, on loopback only.")]
Port = Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on (default: 8091).")]


@app.command(epilog="Example: verbworker api serve --app verbs:registry --port 8091")
def serve(
    registry: App,
    host: Host = None,
    port: Port = None,
    insecure_no_auth: Open = False,
    dsn: Dsn = None,
    engine_id: EngineId = None,
) -> None:
    """Serve cases and messages over HTTP: start, read, list, follow, decide, send and cancel.

    The first SIGTERM or SIGINT stops the server after the requests in progress; the second ends it immediately.
    """
    ingress(registry, host, port, insecure_no_auth, dsn, engine_id)


@app.command(epilog="Example: verbworker api schema > openapi.json")
def schema() -> None:
    """Print the OpenAPI document, for generators of clients."""
    try:
        from verbworker.api.server import describe
    except ModuleNotFoundError as error:
        raise CannotRun(_MISSING) from error
    print_json(describe())


def ingress(
    app: App,
    host: Host = None,
    port: Port = None,
    insecure_no_auth: Open = False,
    dsn: Dsn = None,
    engine_id: EngineId = None,
) -> None:
    """Accept messages over HTTP: POST /messages returns when the message is stored.

    The first SIGTERM or SIGINT stops the server after the requests in progress; the second ends it immediately.
    """
    settings = config.load(dsn=dsn, engine_id=engine_id)
    log.apply(settings)
    try:
        from verbworker.api.server import serve
        from verbworker.api.settings import IngressSettings, load
    except ModuleNotFoundError as error:
        raise CannotRun(_MISSING) from error
    from verbworker.app.wiring import choose_engine, keep_for_good, load_app

    log.warn_of_unknown_settings(IngressSettings)
    registry = load_app(app)
    wanted = load(host=host, port=port)
    keep_for_good()
    run(
        run_until_signal(
            lambda stop: serve(settings, wanted, registry, choose_engine(settings), stop, is_open=insecure_no_auth)
        )
    )
