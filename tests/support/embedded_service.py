"""A whole worker in this process on the embedded engine, and people who ask, send, decide and cancel beside it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from pydantic import BaseModel

from tests.support.drawing import Drawing
from tests.support.eventually import eventually
from verblint.contracts.contract import Argument, Gate
from verbworker.app.settings import Settings
from verbworker.app.wiring import App, choose_engine, open_app
from verbworker.background.poll_loop import PollLoop, RunsServices, Service
from verbworker.client.resources import Resources, open_resources
from verbworker.contract.message import Message
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Engine, Resource
from verbworker.model.weave import weave
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.gates.decide import Gates
from verbworker.work.messages.ingress import Ingress
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.starts.router import Caller

TENANT = "workshop"
LETTER = "shop.letter"
VERB = "shop.case"


class Case(BaseModel):
    """What the steps write."""

    name: str
    first: int = 0
    second: str = ""


class Steps:
    """The verbs of a case; the second may be made to stand until the test lets it go on."""

    def __init__(self) -> None:
        self.standing = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    def registry(self) -> Registry:
        """`shop.case`: a step, a letter, a gate, a short timer, a step."""
        verbs = Registry()

        @verbs.verb("shop.first", mode="transactional", writes=("first",))
        async def first(case: Case, call: Call) -> Result[Case]:
            """Do the first step, with an effect that can be counted."""
            await call.db.execute("INSERT INTO effect (name) VALUES ($1)", case.name)
            return Result(case.model_copy(update={"first": case.first + 1}))

        @verbs.verb("shop.second", mode="external", writes=("second",))
        async def second(case: Case) -> Case:
            """Do the last step."""
            if not self.may_go_on.is_set():
                self.standing.set()
                await self.may_go_on.wait()
            return case.model_copy(update={"second": "done"})

        workflow = WorkflowVerb(
            name=VERB,
            version=1,
            process="shop-case",
            schema="shop.case/v1",
            args={"name": Argument(type="string", required=True)},
            initial={"name": "args.name"},
            outcome={"first": "data.first", "second": "data.second"},
            correlation={"corr_case": "${args.name}"},
            messages={LETTER: "corr_case"},
            gates={"review": Gate("review", "Review", ("yes", "no"), "reviewer")},
            sub_verbs=("shop.first", "shop.second"),
        )
        return verbs.declare(workflow).check()


def model() -> bytes:
    """A step, a letter, a gate, a short timer, a step."""
    drawing = Drawing("shop-case").start().end().task("one", "shop.first").catch("letter", message=LETTER)
    drawing.user_task("review").catch("rest", timer="PT0.2S").task("two", "shop.second")
    xml = drawing.flow("begin", "one", "letter", "review", "rest", "two", "end").xml()
    return xml.replace(b"=corr_key", b"=corr_case")


@dataclass(slots=True)
class Workshop:
    """A worker that is built and not yet running, and everything beside it."""

    app: App
    engine: Engine
    steps: Steps
    resources: Resources
    database: Database
    """The people's own way to the database: a worker that is cut off does not cut them off."""

    @property
    def services(self) -> list[Service]:
        """Every service of the worker's process, as it starts them."""
        assert isinstance(self.engine, RunsServices)
        return [*self.app.worker.services, *self.engine.services]

    @asynccontextmanager
    async def working(self, stop: asyncio.Event | None = None) -> AsyncIterator["asyncio.Task[None]"]:
        """The worker at work; in the end it drains."""
        over = stop or asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.app.run(over))
            yield task
            over.set()

    def poke(self) -> None:
        """Have every service look for work now."""
        for service in self.services:
            if isinstance(service, PollLoop):
                service.poke()

    async def ask(self, name: str) -> UUID:
        """Ask for a case; a worker starts it."""
        entry = await self.resources.router.invoke(VERB, {"name": name}, caller=Caller(TENANT, "ann"))
        return entry.entry_id

    async def send(self, name: str) -> None:
        """Send a case its letter; a worker delivers it."""
        inbox = Inbox(self.database, engine_id=self.engine.engine_id, owner=uuid4())
        letter = Message(
            message_name=LETTER, message_id=f"m-{name}", correlation_key=name, tenant_id=TENANT, payload={}
        )
        await Ingress(inbox, DeadLetters(self.database)).take(letter, sent_by="tests")

    async def decide(self, entry_id: UUID) -> None:
        """Decide at the gate of an entry; a worker tells the engine."""
        await Gates(self.database).decide(entry_id, "yes", by="bob", tenant_id=TENANT)

    async def cancel(self, entry_id: UUID) -> None:
        """Ask for the end of an entry some time ago; a worker carries it out."""
        await Cancellation(self.database, self.resources.dispatches).cancel(
            entry_id, tenant_id=TENANT, by="ann", reason="a mistake"
        )
        await self.change("runbook_entry SET cancel_requested_at = now() - interval '1 minute'", entry_id)

    async def age(self, entry_id: UUID) -> None:
        """Let nothing have been heard of an entry for a day."""
        await self.change("runbook_entry SET updated_at = now() - interval '1 day'", entry_id)

    async def change(self, assignment: str, entry_id: UUID) -> None:
        """Change the rows of an entry as only a test may."""
        await self.database.execute(f"UPDATE verbworker.{assignment} WHERE entry_id = $1", entry_id)

    async def value(self, statement: str, *args: object) -> Any:
        """The first column of the first row."""
        row = await self.database.fetchrow(statement, *args)
        return None if row is None else row[0]

    async def until(self, statement: str, wanted: object, *args: object) -> None:
        """Return when a statement gives what is wanted."""

        async def look() -> bool:
            return bool(await self.value(statement, *args) == wanted)

        await eventually(look)

    async def waits(self, entry_id: UUID, *, at: str) -> None:
        """Return when an entry waits at an element of its model."""
        open_waits = "SELECT count(*) FROM verbworker.parked_token WHERE entry_id = $1 AND element_id = $2"
        await self.until(f"{open_waits} AND closed_at IS NULL", 1, entry_id, at)

    async def ends(self, entry_id: UUID, status: str = "completed") -> None:
        """Return when an entry has ended in this way."""
        await self.until("SELECT status FROM verbworker.runbook_entry WHERE entry_id = $1", status, entry_id)


@asynccontextmanager
async def workshop(dsn: str, worker_dsn: str | None = None, **given: Any) -> AsyncIterator[Workshop]:
    """A workshop on a migrated database; the worker comes to it by `worker_dsn`."""
    steps = Steps()
    registry = steps.registry()
    common = {"engine": "embedded", "tenant": TENANT, "http_port": 0, "poll_wait": 1, "verb_connections": 4}
    settings = Settings.model_validate({"dsn": worker_dsn or dsn, **common, **given})
    own = Settings.model_validate({"dsn": dsn, **common, **given})
    async with Database(dsn, size=4) as database, open_resources(own, registry) as resources:
        await database.execute("CREATE TABLE effect (name text NOT NULL)")
        await deploy(dsn, database, own.cluster(), registry)
        engine = choose_engine(settings)
        async with open_app(settings, registry, engine) as app:
            yield Workshop(app, engine, steps, resources, database)


async def deploy(dsn: str, database: Database, engine_id: str, registry: Registry) -> None:
    """Weave and deploy the model."""
    woven = weave(model(), registry)
    async with EmbeddedEngine(Database(dsn, size=4), engine_id=engine_id, run_timers=False) as engine:
        (deployed,) = await engine.deploy([Resource("case.bpmn", woven.content)])
    deployments = Deployments(database, engine_id=engine_id)
    digest = sha256(model()).digest()
    await deployments.record(deployed, woven, resource="case.bpmn", authored_sha256=digest, by="tests")
