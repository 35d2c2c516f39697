"""`verbworker worker`: take jobs and run their verbs until stopped."""

import asyncio
import logging
import os
import threading
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.output import complain, run
from verbworker.app.signals import run_until_signal
from verbworker.cli.shared_options import App, Dsn, EngineId, EngineName
from verbworker.errors import EndedByBug, VerbworkerError, exit_code
from verbworker.job.failpoint import arm_from_environment

if TYPE_CHECKING:
    from verbworker.app.wiring import App as OpenApp

_log = logging.getLogger(__name__)


def worker(
    app: App,
    dsn: Dsn = None,
    engine: EngineName = None,
    engine_id: EngineId = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the worker in the engine (default: host name).")
    ] = None,
    http_host: Annotated[
        str | None, typer.Option("--http-host", help="Address of /live, /ready and /metrics (default: 127.0.0.1).")
    ] = None,
    http_port: Annotated[
        int | None, typer.Option("--http-port", help="Their port, or 0 for none (default: 8090).")
    ] = None,
    log_format: Annotated[str | None, typer.Option("--log-format", help="json or text (default: json).")] = None,
    log_level: Annotated[
        str | None, typer.Option("--log-level", help="debug, info, warning or error (default: info).")
    ] = None,
) -> None:
    """Run the verbs of a registry.

    The first SIGTERM or SIGINT drains: jobs that have not started are returned without using a retry, running ones
    finish. The second ends the process immediately. A bug in a background service drains too, and exits with 3.
    """
    settings = config.load(
        dsn=dsn,
        engine=engine,
        engine_id=engine_id,
        worker_name=name,
        http_host=http_host,
        http_port=http_port,
        log_format=log_format,
        log_level=log_level,
    )
    log.set_up(as_json=settings.log_format == "json", level=settings.log_level)
    arm_from_environment()
    # Imported here: it takes a quarter of a second that other commands need not wait.
    from verbworker.app.wiring import load_app, open_app

    registry = load_app(app)
    try:
        run(run_until_signal(lambda stop: _work(open_app(settings, registry), stop)))
    except VerbworkerError as error:
        leave(exit_code(error), str(error))
        raise
    except (SystemExit, KeyboardInterrupt) as error:
        # Signals drain, so this was raised in a callback of a verb, outside everything that contains verbs.
        ended = EndedByBug(f"a verb ended the event loop by {type(error).__name__}")
        leave(exit_code(ended), str(ended))
        raise ended from error
    leave()


async def _work(opening: "AbstractAsyncContextManager[OpenApp]", stop: asyncio.Event) -> None:
    from verbworker.app.wiring import keep_for_good

    try:
        async with opening as app:
            keep_for_good()
            await app.run(stop)
    except VerbworkerError:
        raise
    except Exception:
        _log.exception("the worker ended by a bug")
        raise


def leave(code: int = 0, sentence: str | None = None) -> None:
    """End the process even if a verb's thread is still busy: nothing waits for its result."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        if sentence is not None:
            complain(sentence)
        logging.shutdown()
        os._exit(code)
