"""`verbworker worker`: take jobs and run their verbs until stopped."""

import asyncio
import logging
import os
import threading
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.output import complain, run
from verbworker.app.signals import drain_on_signal
from verbworker.cli.operate.db import DSN
from verbworker.errors import VerbworkerError, exit_code
from verbworker.job.failpoint import arm_from_environment

if TYPE_CHECKING:
    from verbworker.app.wiring import App

_log = logging.getLogger(__name__)


def _option(name: str, words: str) -> Any:
    return typer.Option(None, name, help=words, show_default=False)


def worker(
    app: str = typer.Option(..., "--app", help="Your registry, as module:attribute.", show_default=False),
    dsn: str | None = DSN,
    engine: str | None = _option("--engine", "The process engine: zeebe or embedded."),
    engine_id: str | None = _option("--engine-id", "A name for this cluster that no other has."),
    name: str | None = _option("--name", "The worker's name in the engine; else the host's."),
    http_host: str | None = _option("--http-host", "Where /live, /ready and /metrics are served; else 127.0.0.1."),
    http_port: int | None = _option("--http-port", "Their port, 0 for none; else 8090."),
    log_format: str | None = _option("--log-format", "json or text; else json."),
    log_level: str | None = _option("--log-level", "debug, info, warning or error; else info."),
) -> None:
    """Work for every verb of a registry.

    SIGTERM or SIGINT drains: what has not begun goes back at no cost, what runs is finished. A second one ends at once.
    A bug in a background service drains too, and exits with 3.
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
        run(_work(open_app(settings, registry)))
    except VerbworkerError as error:
        leave(exit_code(error), str(error))
        raise
    leave()


async def _work(opening: "AbstractAsyncContextManager[App]") -> None:
    from verbworker.app.wiring import keep_for_good

    stop = asyncio.Event()
    with drain_on_signal(stop):
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
