"""`verbworker worker`: take jobs and run their verbs until stopped."""

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.output import complain, run
from verbworker.app.signals import run_until_signal
from verbworker.cli.shared_options import App, Dsn, EngineId, EngineName
from verbworker.errors import VerbworkerError, exit_code, leaves
from verbworker.job.failpoint import arm_from_environment

if TYPE_CHECKING:
    from verbworker.app.settings import Settings
    from verbworker.contract.registry import Registry

_log = logging.getLogger(__name__)

_CLOSE_WITHIN = 10.0  # what is left then is a thread of a verb that does not end


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
    finish. The second ends the process immediately. A bug in a background service drains too, and exits with 3. If
    Postgres or the engine does not answer, the worker waits.
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
    log.apply(settings)
    log.warn_of_unknown_settings()
    arm_from_environment()
    # Imported here: it takes a quarter of a second that other commands need not wait.
    from verbworker.app.wiring import load_app

    registry = load_app(app)
    try:
        run(run_until_signal(lambda stop: _work(settings, registry, stop)), run_beside_verbs)
    except VerbworkerError as error:
        leave(exit_code(error), str(error))
        raise
    leave()


def run_beside_verbs(work: Coroutine[Any, Any, None]) -> None:
    """Run a worker to its end, whatever its verbs do to the event loop, and end the process soon after.

    An exit that a verb raises in a callback leaves the loop; it is logged, and the loop goes on where it was.
    """
    from verbworker.work.jobs.containment import contain_verbs

    with ExitStack() as closing, asyncio.Runner() as runner:
        loop = runner.get_loop()
        contain_verbs(loop)
        main = loop.create_task(work)
        code, sentence = 0, None
        try:
            while not main.done():
                _go_on(loop, main)
        except BaseException as error:
            first = next(leaves(error))
            code, sentence = exit_code(first), str(first)
            raise
        finally:
            # Closing the loop waits for every thread of a verb, even one that hangs, and for every task.
            timer = threading.Timer(_CLOSE_WITHIN, _end_now, (code, sentence))
            timer.daemon = True
            timer.start()
            closing.callback(timer.cancel)


def _go_on(loop: asyncio.AbstractEventLoop, main: "asyncio.Task[None]") -> None:
    from verbworker.work.jobs.containment import verb_of_callback

    try:
        loop.run_until_complete(main)
    except (SystemExit, KeyboardInterrupt) as error:
        if main.done() or (verb := verb_of_callback(error.__traceback__)) is None:
            raise
        _log.error("a verb tried to end the process", extra={"verb": verb, "error": type(error).__name__})


async def _work(settings: "Settings", registry: "Registry", stop: asyncio.Event) -> None:
    from verbworker.app.wiring import keep_for_good, open_app_patiently

    try:
        async with open_app_patiently(settings, registry, stop, abandon=_abandon) as app:
            if app is not None:
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
        _end_now(code, sentence)


def _abandon(runs: int, bug: VerbworkerError | None) -> None:
    """End the process although verbs still run; another worker takes their jobs over when their leases end."""
    _log.error("ended; some runs ignored their cancellation", extra={"runs": runs})
    _end_now(0 if bug is None else exit_code(bug), None if bug is None else str(bug))


def _end_now(code: int, sentence: str | None) -> None:
    if sentence is not None:
        complain(sentence)
    logging.shutdown()
    os._exit(code)
