"""The client: a database and, on first use, an engine and a router; for commands and programs without a worker."""

from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from verbworker.app.output import run
from verbworker.app.settings import Settings
from verbworker.stores import migrations
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database

if TYPE_CHECKING:
    from verbworker.contract.registry import Registry
    from verbworker.engine.protocol import Engine
    from verbworker.work.starts.router import Router

T = TypeVar("T")


class Client:
    """What a command needs of one database and its engine. Open it with `open_client`."""

    def __init__(
        self, settings: Settings, database: Database, stack: AsyncExitStack, registry: "Registry | None"
    ) -> None:
        self.settings = settings
        self.database = database
        self.owner = uuid4()
        self._stack = stack
        self._registry = registry

    @cached_property
    def runbook(self) -> Runbook:
        """The entries of the database."""
        return Runbook(self.database)

    @cached_property
    def dispatches(self) -> Dispatches:
        """The starts that wait for the engine; raises `ContractInvalid` if no engine id is set."""
        return Dispatches(self.database, engine_id=self.settings.cluster(), owner=self.owner)

    @cached_property
    def router(self) -> "Router":
        """Starts the verbs of the registry; a workflow verb is carried out by the next worker with free capacity."""
        # Imported here: they take a quarter of a second that commands without a registry need not wait.
        from verbworker.app import selfcheck
        from verbworker.work.jobs.perform import VerbRun
        from verbworker.work.starts.direct import Direct
        from verbworker.work.starts.router import Router

        registry, database = self._registry, self.database
        assert registry is not None, "open the client with a registry"
        ring = selfcheck.required_ring(registry, self.settings)
        threads = self._stack.enter_context(ThreadPoolExecutor(4, thread_name_prefix="verb"))
        direct = Direct(registry, database, database, VerbRun(threads), self.owner)
        return Router(registry, database, self.dispatches, direct, engine_id=self.settings.cluster(), ring=ring)

    async def open_engine(self) -> "Engine":
        """Open the engine of the settings; it is closed with the client."""
        from verbworker.app.wiring import choose_engine  # gRPC takes a third of a second

        return await self._stack.enter_async_context(choose_engine(self.settings))


@asynccontextmanager
async def open_client(settings: Settings, registry: "Registry | None" = None) -> AsyncIterator[Client]:
    """Open a client; raises `SchemaMismatch` unless the database is at this version's schema."""
    await migrations.require(settings.database())
    async with Database(settings.database(), size=4) as database, AsyncExitStack() as stack:
        yield Client(settings, database, stack, registry)


def run_with_client(
    settings: Settings, work: Callable[[Client], Awaitable[T]], registry: "Registry | None" = None
) -> T:
    """Run one command's work with an open client."""

    async def working() -> T:
        async with open_client(settings, registry) as client:
            return await work(client)

    return run(working())
