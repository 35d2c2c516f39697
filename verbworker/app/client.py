"""The client: starts verbs and reads the runbook for people and programs, without a worker."""

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from verbworker.app import selfcheck
from verbworker.app.settings import Settings
from verbworker.contract.registry import Registry
from verbworker.stores import migrations
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.work.jobs.perform import VerbRun
from verbworker.work.starts.direct import Direct
from verbworker.work.starts.router import Router


@dataclass(frozen=True, slots=True)
class Client:
    """A router and the runbook it writes."""

    router: Router
    runbook: Runbook
    dispatches: Dispatches


@asynccontextmanager
async def opened_office(settings: Settings, registry: Registry) -> AsyncIterator[Client]:
    """Open a client. A workflow verb requested here is started by the next worker with free capacity."""
    ring = selfcheck.required_ring(registry, settings)
    await migrations.require(settings.database())
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(settings.database(), size=4))
        threads = stack.enter_context(ThreadPoolExecutor(4, thread_name_prefix="verb"))
        owner = uuid4()
        dispatches = Dispatches(database, engine_id=settings.cluster(), owner=owner)
        direct = Direct(registry, database, database, VerbRun(threads), owner)
        router = Router(registry, database, dispatches, direct, engine_id=settings.cluster(), ring=ring)
        yield Client(router, Runbook(database), dispatches)
