"""The whole application in one test: a real engine, a real database, a worker, and the people around it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

from tests.support.eventually import eventually
from tests.support.kyc import EXTRACT, PASSPORT, TABLES
from tests.support.kyc_people import Grown, grown, set_variables
from tests.support.kyc_provider import Provider
from verblint.fixes.edits import repair
from verblint.linter import Linter
from verblint.settings import Settings as LintSettings
from verblint.settings import find_project
from verblint.startup.value import replace
from verbs import registry
from verbworker.app import wiring as app
from verbworker.app.settings import Settings
from verbworker.client.resources import Resources, open_resources
from verbworker.contract.message import Message
from verbworker.engine.protocol import Engine, Resource
from verbworker.profile.verify.models import ModelLinter, open_linter, read_models
from verbworker.runbook.event import Entry, Event, Kind, OpenToken, Wait
from verbworker.stores.cases.gates import HumanGate
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.messages.dead_letters import DeadLetter, DeadLetters
from verbworker.stores.messages.inbox import Inbox, Receipt
from verbworker.work.gates.decide import Gates
from verbworker.work.messages.ingress import Ingress
from verbworker.work.starts.deploy import Deploy, prepare
from verbworker.work.starts.router import Caller

TENANT = "bank"
ROOT = Path(__file__).parents[2]
TIMEOUT = 60.0
PAPERS = (PASSPORT, EXTRACT)

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class World:
    """Where a case worker, a reviewer, a customer and an operator stand."""

    dsn: str
    address: str
    settings: Settings
    database: Database
    resources: Resources
    gates: Gates
    ingress: Ingress
    letters: DeadLetters
    provider: Provider
    timeout: float = TIMEOUT
    rest_url: str | None = None
    profile: str = ""  # the linter's engine; its fixes are applied before the models are deployed

    @asynccontextmanager
    async def working(self, engine: Engine | None = None) -> AsyncIterator[None]:
        """A worker as `verbworker worker` opens it, drained at the end."""
        stop = asyncio.Event()
        async with (
            app.open_app(self.settings, registry, engine or self.new_engine()) as opened,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(opened.run(stop))
            try:
                yield
            finally:
                stop.set()

    def new_engine(self) -> Grown:
        """A connection of its own to the engine that the settings name."""
        return grown(self.settings, self.address, self.rest_url)

    async def set_variables(self, entry_id: UUID, variables: Mapping[str, object]) -> None:
        """Change variables in the engine, as somebody with its admin tools can."""
        key = await self.instance_key(entry_id)
        async with self.new_engine() as engine:
            await set_variables(engine, key, variables)

    async def deploy(self) -> None:
        """Bring the models to the engine as `verbworker deploy processes` does."""
        models = read_models([str(ROOT / "processes" / "kyc-open-case")])
        lint = open_linter(str(ROOT / "verbs"))
        if self.profile:
            project = replace(find_project(), verbs=str(ROOT / "verbs"), settings=LintSettings(engine=self.profile))
            models = [Resource(m.name, repair(Linter(project), m.content, m.name).content) for m in models]
            # 8.10 draws the native form; the engines that run it here are older, and refuse what only 8.10 knows.
            runs_on = "8.8" if self.profile == "8.10" else self.profile
            lint = ModelLinter(replace(project, settings=LintSettings(engine=runs_on)))
        prepared = prepare(models, lint, registry)
        assert prepared.ready, (prepared.report, prepared.refusals)
        async with self.new_engine() as engine:
            deploy = Deploy(engine, Deployments(self.database, engine_id=engine.engine_id))
            for ready in prepared.ready:
                await deploy.deploy(ready, by="tests")

    async def ask(self, entity: str = "Allianz GmbH", **args: str) -> UUID:
        """Ask for a case, as a case worker does."""
        given = {"entity": entity, "case-type": "periodic-review", **args}
        caller = Caller(TENANT, "ann", request_key=uuid4().hex)
        return (await self.resources.router.invoke("kyc.open-case", given, caller=caller)).entry_id

    async def entry(self, entry_id: UUID) -> Entry:
        """The entry as it stands."""
        found = await self.resources.runbook.entry(entry_id)
        assert found is not None
        return found

    async def ended(self, entry_id: UUID) -> Entry:
        """The entry when it has ended."""

        async def look() -> Entry | None:
            entry = await self.entry(entry_id)
            return entry if entry.status.is_final else None

        return await self._patiently(entry_id, look)

    async def waiting(self, entry_id: UUID, kind: Wait) -> OpenToken:
        """What the entry waits for, as soon as it waits for something of this kind."""

        async def look() -> OpenToken | None:
            waits = await self.resources.runbook.waits(entry_id)
            return next((wait for wait in waits if wait.kind is kind), None)

        return await self._patiently(entry_id, look)

    async def told(self, entry_id: UUID, kind: Kind) -> Event:
        """The first event of a kind, as soon as the runbook has it."""

        async def look() -> Event | None:
            events = await self.resources.runbook.events(entry_id)
            return next((event for event in events if event.kind is kind), None)

        return await self._patiently(entry_id, look)

    async def step(self, entry_id: UUID, verb: str) -> Event:
        """The event that tells of a step, as soon as it is done."""

        async def look() -> Event | None:
            events = await self.resources.runbook.events(entry_id)
            steps = (event for event in events if event.kind is Kind.STEP_COMPLETED)
            return next((event for event in steps if event.detail["verb"] == verb), None)

        return await self._patiently(entry_id, look)

    async def events(self, entry_id: UUID) -> list[Event]:
        """Everything the runbook tells of an entry."""
        return await self.resources.runbook.events(entry_id)

    async def kinds(self, entry_id: UUID) -> list[str]:
        """The kinds of its events, in order."""
        return [event.kind.value for event in await self.events(entry_id)]

    async def done(self, entry_id: UUID) -> list[str]:
        """The verbs that were performed, in order."""
        events = await self.events(entry_id)
        return [event.detail["verb"] for event in events if event.kind is Kind.STEP_COMPLETED]

    async def undone(self, entry_id: UUID) -> list[str]:
        """The verbs that undid something, in order."""
        events = await self.events(entry_id)
        return [event.detail["verb"] for event in events if event.kind is Kind.COMPENSATED]

    async def decide(self, entry_id: UUID, decision: str = "approve", *, by: str = "ada") -> HumanGate:
        """Decide at the review as soon as it is asked for."""
        await self.waiting(entry_id, Wait.HUMAN_GATE)
        return await self.gates.decide(entry_id, decision, reason="seen the papers", by=by, tenant_id=TENANT)

    async def send(
        self,
        entry_id: UUID,
        papers: Sequence[object] = PAPERS,
        *,
        key: str | None = None,
        message_id: str | None = None,
        ttl: timedelta | None = None,
    ) -> Receipt:
        """Send papers, as the customer's portal does; the key is the number of the case unless it errs."""
        message = Message(
            message_name="kyc.documents-received",
            message_id=message_id or uuid4().hex,
            correlation_key=key or str(entry_id),
            tenant_id=TENANT,
            entry_id=entry_id,
            payload={"documents": list(papers)},
        )
        return await self.ingress.take(message, sent_by="portal", ttl=ttl)

    async def letter(self, entry_id: UUID) -> DeadLetter:
        """The dead letter of an entry, as soon as there is one."""

        async def look() -> DeadLetter | None:
            letters = await self.letters.list(TENANT)
            return next((letter for letter in letters if letter.entry_id == entry_id), None)

        return await self._patiently(entry_id, look)

    async def instance_key(self, entry_id: UUID) -> int:
        """The engine's key of what carries an entry out."""
        key: int = (await self._instance(entry_id))["instance_key"]
        return key

    async def payload(self, entry_id: UUID) -> bytes:
        """The payload of record."""
        row = await self.database.fetchrow(
            "SELECT content FROM verbworker.payload_head WHERE instance_uid = $1",
            (await self._instance(entry_id))["instance_uid"],
        )
        assert row is not None
        return bytes(row["content"])

    async def _instance(self, entry_id: UUID) -> dict[str, Any]:
        row = await self.database.fetchrow("SELECT * FROM verbworker.workflow_instance WHERE entry_id = $1", entry_id)
        assert row is not None
        return dict(row.items())

    async def until(self, entry_id: UUID, look: Callable[[], Awaitable[bool]]) -> None:
        """Return when something holds."""
        await self._patiently(entry_id, look)

    async def case(self, entry_id: UUID) -> dict[str, Any]:
        """The row of the case in the domain's own table."""
        row = await self.database.fetchrow("SELECT * FROM kyc_case WHERE case_id = $1", entry_id)
        assert row is not None
        return dict(row.items())

    async def frames(self, entry_id: UUID) -> list[dict[str, Any]]:
        """The frames of an entry's steps, in the order in which they were finished."""
        rows = await self.database.fetch(
            "SELECT f.* FROM verbworker.job_frame f JOIN verbworker.workflow_instance i USING (instance_uid)"
            " WHERE i.entry_id = $1 ORDER BY f.popped_at",
            entry_id,
        )
        return [dict(row.items()) for row in rows]

    async def _patiently(self, entry_id: UUID, look: Callable[[], Awaitable[Found | None]]) -> Found:
        try:
            found = await eventually(look, timeout=self.timeout)
        except TimeoutError:
            story = [(event.kind.value, event.detail) for event in await self.events(entry_id)]
            waits = await self.resources.runbook.waits(entry_id)
            raise AssertionError(f"it did not come; {story}; it waits for {waits}") from None
        assert found is not None
        return found


@asynccontextmanager
async def opened_world(
    dsn: str,
    address: str,
    provider: Provider,
    *,
    timeout: float = TIMEOUT,
    rest_url: str | None = None,
    profile: str = "",
    **settings: Any,
) -> AsyncIterator[World]:
    """A world with the model deployed and nobody working; what it started is cancelled at the end.

    The engine is the one at the address, unless the settings say that it is in the database.
    """
    given = {"engine_id": f"kyc-{uuid4().hex[:8]}", "tenant": TENANT, "http_port": 0, "poll_wait": 1, **settings}
    settled = Settings.model_validate({"dsn": dsn, **given})
    async with Database(dsn, size=4) as database, open_resources(settled, registry) as resources:
        await database.execute(TABLES.read_text())
        letters = DeadLetters(database)
        ingress = Ingress(Inbox(database, engine_id=settled.cluster(), owner=uuid4()), letters)
        parts = database, resources, Gates(database), ingress, letters, provider, timeout, rest_url, profile
        world = World(dsn, address, settled, *parts)
        await world.deploy()
        try:
            yield world
        finally:
            await _leave_nothing(world)


async def _leave_nothing(world: World) -> None:
    """Cancel what still runs: the next test meets none of our jobs."""
    rows = await world.database.fetch(
        "SELECT instance_key FROM verbworker.workflow_instance WHERE ended_at IS NULL AND instance_key IS NOT NULL"
    )
    async with world.new_engine() as engine:
        for row in rows:
            if await engine.alive(row["instance_key"]):
                await engine.cancel(row["instance_key"])
