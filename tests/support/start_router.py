"""Starts of verbs: a router and a dispatcher over one database, one broker and one rig."""

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from tests.support.rig import Rig
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Engine
from verbworker.payload.signature import KeyRing
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.work.jobs.perform import VerbRun
from verbworker.work.starts.direct import Direct
from verbworker.work.starts.dispatcher import Dispatcher
from verbworker.work.starts.router import Caller, Router

TENANT = "tests"


def asking(request_key: str | None = None, *, tenant: str = TENANT) -> Caller:
    """Somebody who asks."""
    return Caller(tenant, "ann", request_key)


@dataclass(frozen=True, slots=True)
class StartSetup:
    """Everything a caller touches."""

    router: Router
    dispatcher: Dispatcher
    dispatches: Dispatches
    runbook: Runbook
    database: Database


@asynccontextmanager
async def open_starts(
    database: Database, registry: Registry, engine: Engine, *, ring: KeyRing | None = None
) -> AsyncIterator[StartSetup]:
    """A router; its dispatcher works when the test says so."""
    owner, threads = uuid4(), ThreadPoolExecutor(2)
    dispatches = Dispatches(database, engine_id=engine.engine_id, owner=owner)
    dispatcher = Dispatcher(dispatches, Instances(database), engine)
    direct = Direct(registry, database, database, VerbRun(threads), owner)
    router = Router(
        registry, database, dispatches, direct, engine_id=engine.engine_id, ring=ring, dispatcher=dispatcher
    )
    try:
        yield StartSetup(router, dispatcher, dispatches, Runbook(database), database)
    finally:
        threads.shutdown(wait=False)


@asynccontextmanager
async def beside(rig: Rig) -> AsyncIterator[StartSetup]:
    """A router on the same database and engine as a rig."""
    async with open_starts(rig.database, rig.registry, rig.engine) as opened:
        yield opened
