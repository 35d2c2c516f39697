"""A worker process that only searches: `python -m tests.support.search_process DSN URL NAME EVERY HOLD`."""

import asyncio
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

from tests.support.frames import ENGINE
from tests.support.rest_replay import RestServer
from verbworker.engine.zeebe.connection import Basic, GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.database import Database
from verbworker.stores.upkeep_turns import UpkeepTurns
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.upkeep.reconciler import Reconciler
from verbworker.work.upkeep.search_reconciler import SearchReconciler

_SEARCH = "/v2/incidents/search"


def searches(server: RestServer) -> Counter[str]:
    """How often each process has begun to search, by its name."""
    names = Counter[str]()
    for one in list(server.seen):
        if one.path == _SEARCH:
            names[{name.lower(): value for name, value in one.headers.items()}["authorization"]] += 1
    return names


def name_header(name: str) -> str:
    """What the requests of a process carry."""
    return f"Basic {b64encode(f'{name}:x'.encode()).decode()}"


@asynccontextmanager
async def searching(
    database: Database, url: str, name: str, turns: UpkeepTurns, *, every: float = 10.0
) -> AsyncIterator[SearchReconciler]:
    """A worker's reconciler by search, over REST under a name."""
    address = GatewayAddress(rest_url=url, transport="rest", credentials=Basic(name, "x"))
    async with ZeebeEngine(address, engine_id=ENGINE) as engine:
        cancelling = Cancellation(database, Dispatches(database, engine_id=ENGINE, owner=uuid4()), engine)
        reconciler = Reconciler(database, engine, cancelling)
        yield SearchReconciler(database, engine, reconciler, turns=turns, every=every)


async def search(dsn: str, url: str, name: str, every: float, hold: float) -> None:
    """Search for ever, as the service of a worker does."""
    async with Database(dsn, size=2) as database:
        hold_for = timedelta(seconds=hold)
        turns = UpkeepTurns(database, engine_id=ENGINE, service="search", owner=uuid4(), hold=hold_for)
        async with searching(database, url, name, turns, every=every) as reconciler:
            await reconciler.service.run()


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(search(given[0], given[1], given[2], float(given[3]), float(given[4])))
