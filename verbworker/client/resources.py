"""What a client is made of: a database and, on first use, an engine, a router and an ingress for messages."""

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import uuid4

from verbworker.app.settings import Settings
from verbworker.app.tracing.choice import open_tracer
from verbworker.errors import AccessDenied, CannotRun
from verbworker.job.trace import UNTRACED, Tracer
from verbworker.stores import migrations
from verbworker.stores.access.tenancy import EVERY_TENANT
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database

if TYPE_CHECKING:
    from verbworker.contract.registry import Registry
    from verbworker.engine.protocol import Engine
    from verbworker.work.messages.ingress import Ingress
    from verbworker.work.starts.router import Router

_SYNC_VERBS = 4  # threads for direct verbs that are plain functions


class Resources:
    """One open database and what is built on it when it is first used. Open it with `open_resources`."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        stack: AsyncExitStack,
        registry: "Registry | None" = None,
        *,
        ingress: "Ingress | None" = None,
        tracer: Tracer = UNTRACED,
    ) -> None:
        self.settings = settings
        self.database = database
        self.registry = registry
        self.owner = uuid4()
        self._stack = stack
        self.tracer = tracer
        self._ingress = ingress
        self._is_engine_known = False
        self._views: dict[str, Resources] = {}

    def of(self, tenant: str) -> "Resources":
        """Return these resources for one tenant, on the same connections."""
        if tenant == self.database.tenant:
            return self
        if tenant not in self._views:
            one = self._views[tenant] = Resources(
                *(self.settings, self.database.of(tenant), self._stack, self.registry),
                ingress=self._ingress,
                tracer=self.tracer,
            )
            one.owner = self.owner
        return self._views[tenant]

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

        registry, database = self.registry, self.database
        if registry is None:
            raise CannotRun("this client cannot start verbs: pass your registry when you make it")
        ring = selfcheck.required_ring(registry, self.settings)
        threads = self._stack.enter_context(ThreadPoolExecutor(_SYNC_VERBS, thread_name_prefix="verb"))
        direct = Direct(
            registry, database, database, VerbRun(threads, tracebacks=self.settings.log_tracebacks), self.owner
        )
        engine_id = self.settings.cluster()
        return Router(
            *(registry, database, self.dispatches, direct),
            engine_id=engine_id,
            ring=ring,
            tracer=self.tracer,
            quotas=self.settings.quotas(),
        )

    @cached_property
    def ingress(self) -> "Ingress":
        """Accepts messages; a worker delivers them. Raises `ContractInvalid` if no engine id is set."""
        from verbworker.stores.messages.dead_letters import DeadLetters
        from verbworker.stores.messages.inbox import Inbox
        from verbworker.work.messages.ingress import Ingress

        if self._ingress is not None:
            return self._ingress
        quotas, engine_id = self.settings.quotas(), self.settings.cluster()
        inbox = Inbox(self.database, engine_id=engine_id, owner=self.owner, quotas=quotas)
        return Ingress(inbox, DeadLetters(self.database))

    async def require_engine(self) -> None:
        """Check the engine id against the engine in this database, which would never see a start of another name."""
        if self.settings.engine == "embedded" and not self._is_engine_known:
            from verbworker.stores.embedded.tokens import Tokens

            try:
                await Tokens(self.database).require_name(self.settings.cluster())
            except AccessDenied as error:
                raise CannotRun(str(error)) from error
            self._is_engine_known = True

    async def open_engine(self) -> "Engine":
        """Open the engine of the settings; it is closed with the resources."""
        from verbworker.app.wiring import choose_engine  # gRPC takes a third of a second

        return await self._stack.enter_async_context(choose_engine(self.settings))


@asynccontextmanager
async def open_resources(
    settings: Settings, registry: "Registry | None" = None, *, tenant: str = EVERY_TENANT
) -> AsyncIterator[Resources]:
    """Open the database for one tenant, or for all; raises `SchemaMismatch` unless it is at this version's schema."""
    await migrations.require(settings.database())
    async with (
        Database(settings.database(), size=settings.control_connections, tenant=tenant) as database,
        AsyncExitStack() as stack,
    ):
        tracer = await stack.enter_async_context(open_tracer(settings, database))
        yield Resources(settings, database, stack, registry, tracer=tracer)
