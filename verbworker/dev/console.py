"""The console of a dev session: loopback only and without login; the session goes on if it cannot run."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from verbworker.app import settings as config
from verbworker.dev.plan import Plan
from verbworker.errors import CannotRun, StoreError

LOOPBACK = "127.0.0.1"
_USUAL = 8092  # the default port of `verbworker console`
_LEAVING_S = 5.0  # the console drains; a developer who pressed Ctrl-C does not wait longer


@asynccontextmanager
async def beside(
    plan: Plan, dsn: str, catalogue: Path, *, port: int | None, tell: Callable[[str], None]
) -> AsyncIterator[None]:
    """Run a console until the end of the block, with the verbs of the catalogue; `tell` receives its address."""
    stop = asyncio.Event()
    failed: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(_serve(plan, dsn, catalogue, port, tell, stop))
        try:
            yield
        except Exception as error:
            failed = error
        finally:
            stop.set()
            await asyncio.wait([serving], timeout=_LEAVING_S)
            serving.cancel()
    if failed is not None:
        # Raised outside the group, so that it is not wrapped in an exception group.
        raise failed


async def _serve(
    plan: Plan, dsn: str, catalogue: Path, port: int | None, tell: Callable[[str], None], stop: asyncio.Event
) -> None:
    try:
        from verbworker.console.pages.verb_list import reader
        from verbworker.console.server import serve
        from verbworker.console.settings import load
    except ModuleNotFoundError:
        tell("the console is not installed; run: pip install 'verbworker[console]'")
        return
    try:
        settings = config.load(dsn=dsn, engine=plan.engine, engine_id=plan.engine_id, tenant=plan.tenant)
        wanted = load(host=LOOPBACK, port=_usual() if port is None else port)
        await serve(
            settings,
            wanted,
            reader(catalogue),
            stop,
            is_open=True,
            opened=lambda home: tell(f"console: {home}"),
        )
    except (CannotRun, StoreError) as error:
        tell(f"the console cannot run: {error}")


def _usual() -> int:
    """Return the default port, or 0 for a free one if it is in use."""
    try:
        with socket.create_server((LOOPBACK, _USUAL)):
            return _USUAL
    except OSError:
        return 0
