"""A play: your whole application in one test, with real models on an engine and a worker on a real database.

On the default in-memory engine the test controls the time: `advance` fires timers. Everything else works as in
production.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from uuid import UUID, uuid4

from verblint.report import render
from verbworker.app import wiring as app
from verbworker.app.settings import Settings
from verbworker.client.client import Client
from verbworker.contract.message import Message
from verbworker.contract.registry import Registry
from verbworker.engine.inline import InlineEngine
from verbworker.engine.protocol import Engine
from verbworker.errors import CannotRun
from verbworker.profile.verify.models import open_linter, read_models
from verbworker.runbook.event import Entry, Kind, OpenToken, describe
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.messages.delivery import MessageDelivery
from verbworker.work.starts.deploy import Deploy, prepare
from verbworker.work.starts.dispatcher import Dispatcher

TENANT = "tests"
_LOOK_EVERY = 0.02  # seconds; short, because every step of a test waits for a look
_LONGEST_WAIT = 30.0  # seconds; a step takes milliseconds, on a loaded build machine seconds
# Leaving a play waits for the polls in progress.
_POLL_SECONDS = 0.2

EngineName = Literal["inline", "embedded", "zeebe"]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Play:
    """The test's access to the application: start, send, decide and observe. Open it with `Play.open`."""

    engine: Engine
    database: Database
    _client: Client
    _dispatcher: Dispatcher
    _delivery: MessageDelivery

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        dsn: str,
        registry: Registry,
        models: Sequence[str],
        *,
        schema: str = "",
        engine: EngineName = "inline",
    ) -> AsyncIterator["Play"]:
        """Open a play on a migrated database, with models linted and deployed; raises `CannotRun` if that fails.

        A Zeebe cluster is found by the usual variables, such as ZEEBE_ADDRESS. Its jobs go to any worker of the
        cluster, so no other worker may serve the same verbs meanwhile.
        """
        settings = _settings(dsn, engine)
        async with (
            _open_engine(settings, engine) as found,
            Client(settings, registry, by="tests") as client,
        ):
            database, owner = client.resources.database, client.resources.owner
            if schema:
                await database.execute(schema)
            await _deploy(models, registry, found, database)
            inbox, letters = Inbox(database, engine_id=found.engine_id, owner=owner), DeadLetters(database)
            play = cls(
                found,
                database,
                client,
                Dispatcher(client.resources.dispatches, Instances(database), found),
                MessageDelivery(registry, inbox, letters, found, tracer=client.resources.tracer),
            )
            # The worker shares the in-memory engine; to the others it opens its own connection, as in production.
            async with _working(settings, registry, found if engine == "inline" else None):
                yield play

    async def ask(self, what: str, args: Mapping[str, Any] | None = None, *, by: str = "tests") -> UUID:
        """Start a verb, by its sentence or its name and arguments; return the entry's id."""
        entry = await self._client.start(what, args, by=by)
        await self._dispatcher.drain()
        return entry.entry_id

    async def send(self, name: str, key: str, payload: Mapping[str, Any] | None = None) -> None:
        """Send a message to the cases that wait for it under this key."""
        await self._client.send(name, key, payload)
        await self._delivery.drain()

    async def deliver(self, message: Message) -> None:
        """Send a prepared message, for example from a generated function; its tenant must be `TENANT`."""
        await self._client.deliver(message)
        await self._delivery.drain()

    async def decide(self, entry_id: UUID, decision: str, *, reason: str = "", by: str = "tests") -> None:
        """Decide at an entry's gate, as soon as the entry waits there."""
        await self.waiting(entry_id, lambda wait: wait.gate is not None)
        await self._client.decide(entry_id, decision, reason=reason, by=by)

    def advance(self, seconds: float) -> None:
        """Advance the process's clock; raises `CannotRun` on an engine with its own clock."""
        if not isinstance(self.engine, InlineEngine):
            raise CannotRun("only the in-memory engine has a clock that a test can advance")
        self.engine.advance(seconds)

    async def waiting(self, entry_id: UUID, which: Callable[[OpenToken], bool] = lambda _: True) -> OpenToken:
        """Return what an entry waits for, as soon as there is a wait that matches `which`."""

        async def look() -> OpenToken | None:
            return next((wait for wait in await self._client.resources.runbook.waits(entry_id) if which(wait)), None)

        return await self._poll(entry_id, look)

    async def ended(self, entry_id: UUID) -> Entry:
        """Return the entry as soon as it has ended."""

        async def look() -> Entry | None:
            entry = await self._client.resources.runbook.entry(entry_id)
            return entry if entry is not None and entry.status.is_final else None

        return await self._poll(entry_id, look)

    async def performed(self, entry_id: UUID, verb: str) -> None:
        """Return as soon as a verb was performed for an entry."""

        async def look() -> bool | None:
            return verb in await self.steps(entry_id) or None

        await self._poll(entry_id, look)

    async def steps(self, entry_id: UUID) -> list[str]:
        """Return the verbs performed for an entry, in order."""
        events = await self._client.resources.runbook.events(entry_id)
        return [event.detail["verb"] for event in events if event.kind is Kind.STEP_COMPLETED]

    async def story(self, entry_id: UUID) -> list[str]:
        """Return what happened to an entry, in readable sentences."""
        return [describe(event) for event in await self._client.resources.runbook.events(entry_id)]

    async def _poll(self, entry_id: UUID, look: Callable[[], Awaitable[Found | None]]) -> Found:
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                while True:
                    if (found := await look()) is not None:
                        return found
                    await asyncio.sleep(_LOOK_EVERY)
        except TimeoutError:
            story = "; ".join(await self.story(entry_id))
            raise AssertionError(f"it did not happen within {_LONGEST_WAIT:.0f} s; events: {story}") from None


def _settings(dsn: str, engine: EngineName) -> Settings:
    given = {"dsn": dsn, "engine_id": f"play-{uuid4().hex[:8]}", "tenant": TENANT, "http_port": 0}
    given["log_tracebacks"] = True
    if engine != "inline":
        given["engine"] = engine
    # Signed payloads need a key; any key works for a test.
    keys = {"integrity_keys": {"tests": uuid4().hex}, "integrity_key": "tests"}
    return Settings.model_validate(given | keys | {"poll_wait": _POLL_SECONDS})


@asynccontextmanager
async def _open_engine(settings: Settings, name: EngineName) -> AsyncIterator[Engine]:
    if name == "inline":
        yield InlineEngine(settings.cluster())
        return
    async with app.choose_engine(settings, is_working=False) as engine:
        yield engine


async def _deploy(models: Sequence[str], registry: Registry, engine: Engine, database: Database) -> None:
    prepared = prepare(read_models(models), open_linter(), registry)
    if not prepared.ready:
        found = [render(prepared.report, "concise").strip(), *map(str, prepared.report.problems), *prepared.refusals]
        raise CannotRun("the models cannot be deployed:\n" + "\n".join(line for line in found if line))
    handler = Deploy(engine, Deployments(database, engine_id=engine.engine_id))
    for ready in prepared.ready:
        await handler.deploy(ready, by="tests")


@asynccontextmanager
async def _working(settings: Settings, registry: Registry, engine: Engine | None) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with app.open_app(settings, registry, engine) as opened, asyncio.TaskGroup() as tasks:
        tasks.create_task(opened.run(stop))
        try:
            yield
        finally:
            stop.set()
