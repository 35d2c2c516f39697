"""`verbworker console`: serve the runbook in a browser until stopped."""

from typing import Annotated

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.output import run, tell
from verbworker.app.signals import run_until_signal
from verbworker.cli.shared_options import Dsn, EngineId, EngineName, Host, OptionalApp, Tenant
from verbworker.errors import CannotRun


def console(
    host: Host = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on (default: 8092).")
    ] = None,
    app: OptionalApp = None,
    tenant: Tenant = None,
    engine: EngineName = None,
    engine_id: EngineId = None,
    dsn: Dsn = None,
) -> None:
    """Serve the runbook in a browser: entries, gates to decide, incidents, dead letters and verbs.

    People log in with a key or at an OpenID issuer, as configured in VERBWORKER_CONSOLE_CREDENTIALS_FILE. --app adds
    the page of verbs. SIGTERM or SIGINT stops the server after the requests in progress.
    """
    settings = config.load(dsn=dsn, tenant=tenant, engine=engine, engine_id=engine_id)
    log.apply(settings)
    try:
        from verbworker.console.pages.verb_list import cards
        from verbworker.console.server import serve
        from verbworker.console.settings import ConsoleSettings, load
    except ModuleNotFoundError as error:
        raise CannotRun("the console is not installed; run: pip install 'verbworker[console]'") from error
    from verbworker.app.wiring import load_app

    log.warn_of_unknown_settings(ConsoleSettings)
    known = None if app is None else cards(load_app(app))
    wanted = load(host=host, port=port)
    run(
        run_until_signal(
            lambda stop: serve(
                settings, wanted, lambda: known, stop, opened=lambda home: tell(f"the console is at {home}")
            )
        )
    )
