"""The counter where a test asks for verbs: a router and a dispatcher over one database, one broker and one rig."""

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from tests.support.rig import Rig
from verbworker.engine import Engine
from verbworker.integrity import KeyRing
from verbworker.registry import Registry
from verbworker.stores._database import Database
from verbworker.stores.dispatches import Dispatches
from verbworker.stores.instances import Instances
from verbworker.stores.runbook import Runbook
from verbworker.work.direct import Direct
from verbworker.work.dispatcher import Dispatcher
from verbworker.work.performance import Performance
from verbworker.work.router import Caller, Router

TENANT = "tests"


def asking(request_key: str | None = None, *, tenant: str = TENANT) -> Caller:
    """Somebody who asks."""
    return Caller(tenant, "ann", request_key)


@dataclass(frozen=True, slots=True)
class Counter:
    """Everything a caller touches."""

    router: Router
    dispatcher: Dispatcher
    dispatches: Dispatches
    runbook: Runbook
    database: Database


@asynccontextmanager
async def counter(
    database: Database, registry: Registry, engine: Engine, *, ring: KeyRing | None = None
) -> AsyncIterator[Counter]:
    """A counter; its dispatcher works when the test says so."""
    owner, threads = uuid4(), ThreadPoolExecutor(2)
    dispatches = Dispatches(database, engine_id=engine.engine_id, owner=owner)
    dispatcher = Dispatcher(dispatches, Instances(database), engine)
    direct = Direct(registry, database, database, Performance(threads), owner)
    router = Router(
        registry, database, dispatches, direct, engine_id=engine.engine_id, ring=ring, dispatcher=dispatcher
    )
    try:
        yield Counter(router, dispatcher, dispatches, Runbook(database), database)
    finally:
        threads.shutdown(wait=False)


@asynccontextmanager
async def beside(rig: Rig) -> AsyncIterator[Counter]:
    """A counter on the same database and engine as a rig."""
    async with counter(rig.database, rig.registry, rig.engine) as opened:
        yield opened
