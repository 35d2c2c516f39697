"""A case that makes every call of an engine, two whole workers that carry it out, and what must be true after it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from pydantic import BaseModel

from tests.support.drawing import Drawing
from tests.support.eventually import TIMEOUT, eventually
from tests.support.lost_answers import Losses
from tests.support.sweeping import sweeper
from tests.support.worker_boot import quick
from verblint.contracts.contract import Argument, Gate
from verbworker.app.settings import Settings
from verbworker.app.wiring import App, open_app
from verbworker.background.poll_loop import PollLoop
from verbworker.client.resources import Resources, open_resources
from verbworker.contract.message import Message
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Engine, Resource
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import JobGone, PermanentBusiness, TransientExternal
from verbworker.model.weave import weave
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.gates.decide import Gates
from verbworker.work.messages.ingress import DeliveryAnswer, Ingress
from verbworker.work.messages.ingress import ImmediateDelivery as ImmediateDelivery
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.starts.router import Caller
from verbworker.work.upkeep.releases import Release, Releases

TENANT = "lost"
ENGINE_ID = "lost"
CODE = "lapsed"
USER_TASK = "io.camunda.zeebe:userTask"

_REPEATING = ("starts", "messages", "cancels", "gates", "sweep", "relay")
"""The services that send a call again."""
_HURRY_EVERY_S = 0.04
_HURRY = (
    # What was put off because an answer was lost is due now.
    "UPDATE verbworker.dispatch SET next_at = clock_timestamp() WHERE done_at IS NULL AND last_error IS NOT NULL",
    "UPDATE verbworker.gate_decision SET next_at = clock_timestamp() WHERE acked_at IS NULL",
    "UPDATE verbworker.runbook_entry SET cancel_requested_at = clock_timestamp() - interval '1 minute'"
    " WHERE ended_at IS NULL AND cancel_requested_at IS NOT NULL",
)
# A listener whose completion was not answered is looked after when its lease is over. Only what was under way when the
# answer was lost: a machine that is slow would never get to the end of a listener whose lease is always over.
_LISTENERS_ARE_OVERDUE = """
UPDATE verbworker.job_delivery SET lease_until = clock_timestamp() - interval '1 hour'
WHERE delivered_at <= $1 AND lease_until > clock_timestamp() AND clock_timestamp() > $1 + interval '0.7 seconds'
"""
_MESSAGES_ARE_DUE = """
UPDATE verbworker.inbox_message SET next_at = clock_timestamp() WHERE state = 'received' AND last_error IS NOT NULL
"""
# The worker that failed to report may still be at it for a moment.
_REPORTS_ARE_OVERDUE = """
UPDATE verbworker.job_frame SET lease_until = clock_timestamp() - interval '1 hour'
WHERE state = 'incident' AND reported_at IS NULL AND popped_at < clock_timestamp() - interval '0.7 seconds'
"""
_DONE = """
SELECT
  (SELECT count(*) FROM verbworker.runbook_event)
  + (SELECT count(*) FROM verbworker.job_frame WHERE popped_at IS NOT NULL)
"""
_LEFT = {
    "open frames": "SELECT verb, state, fail_code FROM verbworker.job_frame"
    " WHERE state IN ('started', 'incident') OR acked_at IS NULL",
    "delivery rows": "SELECT type FROM verbworker.job_delivery",
    "open waits": "SELECT element_id FROM verbworker.parked_token WHERE closed_at IS NULL",
    "starts under way": "SELECT last_error FROM verbworker.dispatch WHERE done_at IS NULL",
    "untold decisions": "SELECT gate FROM verbworker.gate_decision WHERE acked_at IS NULL",
    "unread messages": "SELECT message_id, state FROM verbworker.inbox_message WHERE state <> 'consumed'",
    "dead letters": "SELECT reason FROM verbworker.dead_letter",
    "stalls": "SELECT kind FROM verbworker.stall",
}


class Case(BaseModel):
    """What the steps write."""

    name: str
    asked: bool = False
    booked: bool = False
    helped: bool = False


@dataclass(slots=True)
class Outside:
    """What the verbs did beyond the database: how often each ran."""

    runs: Counter[str] = field(default_factory=Counter)
    trouble: Exception = field(default_factory=lambda: TransientExternal("not yet", code="NotYet"))
    """How the first run of `book` ends."""


def lost_registry(domain: str, outside: Outside) -> Registry:
    """`<domain>.case`: steps of every kind, letters and a gate, as `lost_model` draws them."""
    verbs = Registry()

    async def write(call: Call) -> None:
        await call.db.execute("INSERT INTO effect (verb) VALUES ($1)", call.verb.removeprefix(f"{domain}."))

    @verbs.verb(f"{domain}.ask", mode="external", writes=("asked",))
    async def ask(case: Case) -> Case:
        """Do something elsewhere."""
        outside.runs["ask"] += 1
        return case.model_copy(update={"asked": True})

    @verbs.verb(f"{domain}.book", mode="transactional", writes=("booked",))
    async def deployments(case: Case, call: Call) -> Case:
        """Fail once, then work."""
        outside.runs["book"] += 1
        await write(call)
        if outside.runs["book"] == 1:
            raise outside.trouble
        return case.model_copy(update={"booked": True})

    @verbs.verb(f"{domain}.check", mode="transactional", writes=(), errors=(CODE,))
    async def check(case: Case, call: Call) -> Case:
        """Say no with a code."""
        outside.runs["check"] += 1
        await write(call)
        raise PermanentBusiness("the policy lapsed", code=CODE)

    @verbs.verb(f"{domain}.help", mode="transactional", writes=("helped",))
    async def help_out(case: Case, call: Call) -> Case:
        """Do what is done instead."""
        outside.runs["help"] += 1
        await write(call)
        return case.model_copy(update={"helped": True})

    policy = quick()
    names = tuple(f"{domain}.{name}" for name in ("ask", "book", "check", "help"))
    workflow = WorkflowVerb(
        name=f"{domain}.case",
        version=1,
        process=f"{domain}-case",
        schema=f"{domain}.case/v1",
        args={"name": Argument(type="string", required=True)},
        initial={"name": "args.name"},
        outcome={"asked": "data.asked", "booked": "data.booked", "helped": "data.helped"},
        correlation={"corr_case": "${args.name}"},
        messages={f"{domain}.letter": "corr_case"},
        gates={"review": Gate("review", "review", ("yes", "no"), "reviewer")},
        sub_verbs=names,
        policies=dict.fromkeys(names, policy.name),
        errors={f"{domain}.check": (CODE,)},
    )
    return verbs.declare(workflow, policies=[policy]).check()


def lost_model(domain: str) -> bytes:
    """The process of such a case. It waits for two letters: one that comes twice must not be taken for both."""
    letter = f"{domain}.letter"
    drawing = Drawing(f"{domain}-case").start().end("end", "helped").task("ask", f"{domain}.ask")
    drawing.catch("letter", message=letter).user_task("review").catch("again", message=letter)
    drawing.task("book", f"{domain}.book").task("check", f"{domain}.check").task("help", f"{domain}.help")
    drawing.boundary("lapsed", "check", error=CODE)
    drawing.flow("begin", "ask", "letter", "review", "again", "book", "check", "end").flow("lapsed", "help", "helped")
    return drawing.xml().replace(b"=corr_key", b"=corr_case")


@dataclass(slots=True)
class LostWorld:
    """One database, one engine with lossy ways to it, two workers, and the people beside them."""

    domain: str
    registry: Registry
    losses: Losses
    outside: Outside
    engines: Sequence[Engine]
    database: Database
    resources: Resources
    apps: Sequence[App]
    timeout: float = TIMEOUT
    _hurried_at: float = float("-inf")

    # ---- what people do ------------------------------------------------------------------------------------------

    async def ask(self) -> UUID:
        """Ask for a case."""
        args = {"name": f"{self.domain}-key"}
        entry = await self.resources.router.invoke(f"{self.domain}.case", args, caller=Caller(TENANT, "ann"))
        return entry.entry_id

    async def send(self, message_id: str) -> None:
        """Send the case a letter; a worker brings it to the engine."""
        await Ingress(self._inbox(), DeadLetters(self.database)).take(self._letter(message_id), sent_by="tests")

    async def hand_over(self, message_id: str) -> DeliveryAnswer:
        """Hand the case a letter at once."""
        immediate = ImmediateDelivery(self.registry, self._inbox(), DeadLetters(self.database), self.engines[0])
        return await immediate.hand_over(self._letter(message_id), sent_by="tests")

    async def decide(self, entry_id: UUID) -> None:
        """Decide at the gate of a case, where the engine can be told at once."""
        await Gates(self.database, self.engines[0]).decide(entry_id, "yes", by="bob", tenant_id=TENANT)

    async def cancel(self, entry_id: UUID) -> None:
        """Ask for the end of a case, where the engine can be told at once."""
        cancelling = Cancellation(self.database, self.resources.dispatches, self.engines[0])
        await cancelling.cancel(entry_id, tenant_id=TENANT, by="ann", reason="a mistake")

    async def release(self) -> None:
        """Let the one held job run again, and resolve its incident."""
        job_key = int(await self.value("SELECT job_key FROM verbworker.job_frame WHERE state = 'incident'"))
        frames = Frames(self.database, engine_id=ENGINE_ID, owner=uuid4())
        wanted = Release(job_key, by="ann", reason="mended", retries=1)
        assert (await Releases(frames, Histories(self.database, engine_id=ENGINE_ID), None).release(wanted)).done
        engine = self.engines[0]
        if not isinstance(engine, ZeebeEngine):
            await engine.release(job_key, retries=1)
            return
        for incident_key in range(job_key + 1, job_key + 200):  # gRPC tells nobody which key an incident has
            with suppress(JobGone):
                await engine.release(job_key, retries=1, incident_key=incident_key)
                return
        raise AssertionError("the broker has no incident of the job")

    async def is_held(self) -> None:
        """Return when a job is held for a person and the engine knows of it."""

        async def look() -> bool:
            await self.database.execute(_REPORTS_ARE_OVERDUE)
            # That of a new worker: it looks for open frames at once, and not when the next lease is over.
            await sweeper(self.database, self.engines[0]).sweep()
            held = "SELECT count(*) FROM verbworker.job_frame WHERE state = 'incident' AND reported_at IS NOT NULL"
            return bool(await self.value(held))

        await eventually(look)

    def _inbox(self) -> Inbox:
        return Inbox(self.database, engine_id=ENGINE_ID, owner=uuid4())

    def _letter(self, message_id: str) -> Message:
        return Message(
            message_name=f"{self.domain}.letter",
            message_id=f"{self.domain}-{message_id}",
            correlation_key=f"{self.domain}-key",
            tenant_id=TENANT,
            payload={},
        )

    # ---- what is waited for --------------------------------------------------------------------------------------

    async def waits(self, entry_id: UUID, *, at: str) -> None:
        """Return when a case has come to wait at an element and the engine has been told everything before."""
        waiting = (
            "SELECT EXISTS (SELECT 1 FROM verbworker.parked_token WHERE entry_id = $1 AND element_id = $2)"
            " AND NOT EXISTS (SELECT 1 FROM verbworker.job_delivery)"
        )
        await self.until(waiting, entry_id, at)

    async def ends(self, entry_id: UUID) -> None:
        """Return when a case has ended, here and in the engine, and nothing of it is under way."""
        await self.until("SELECT ended_at IS NOT NULL FROM verbworker.runbook_entry WHERE entry_id = $1", entry_id)
        await self._is_quiet()
        # A call that nobody repeated arrives when all is over.
        await self.losses.settle()
        await self._is_quiet()

    async def _is_quiet(self) -> None:
        async def look() -> bool:
            await self._hurry()
            return not await self.left()

        if not await self._comes_true(look, self.timeout):
            raise AssertionError(f"left behind: {await self.left()}")

    async def until(self, statement: str, *args: object) -> None:
        """Return when a statement gives true; pauses are not waited out."""

        async def look() -> bool:
            await self._hurry()
            row = await self.database.fetchrow(statement, *args)
            return row is not None and bool(row[0])

        if not await self._comes_true(look, max(self.timeout, TIMEOUT)):
            raise AssertionError(f"stands still: {await self.left()}; {self.losses.loss}")

    async def _comes_true(self, look: Callable[[], Awaitable[bool]], timeout: float) -> bool:
        """Wait until a look gives true; give up when nothing has happened for that long. A slow machine is no fault."""
        before, done = -1, int(await self.value(_DONE))
        while done > before:
            with suppress(TimeoutError):
                return await eventually(look, timeout=timeout)
            before, done = done, int(await self.value(_DONE))
        return False

    async def _hurry(self) -> None:
        """Wait out no pause. Not at every look: the services of both workers ask the database then."""
        now = asyncio.get_running_loop().time()
        if now < self._hurried_at + _HURRY_EVERY_S:
            return
        self._hurried_at = now
        for statement in _HURRY:
            await self.database.execute(statement)
        if self.losses.loss is not None and self.losses.loss.is_lost:
            await self.database.execute(_LISTENERS_ARE_OVERDUE, self.losses.loss.lost_at)
        # No id protects a message that was handed over at once: its long pause is for the case to say that it read it.
        if self.losses.loss is None or self.losses.loss.call != "correlate" or self.losses.is_held_back:
            await self.database.execute(_MESSAGES_ARE_DUE)
        for app in self.apps:
            for service in app.worker.services:
                if isinstance(service, PollLoop) and service.name in _REPEATING:
                    service.poke()

    # ---- what is true afterwards -----------------------------------------------------------------------------------

    async def left(self) -> dict[str, object]:
        """What must not be there when every case has ended."""
        found: dict[str, object] = {}
        for name, statement in _LEFT.items():
            if rows := await self.database.fetch(statement):
                found[name] = [dict(row) for row in rows]
        ours = self.losses.instances_of(f"{self.domain}-case")
        alive = [key for key in ours if await self.engines[0].alive(key)]
        return found | ({"instances": alive} if alive else {})

    async def kinds(self, entry_id: UUID) -> list[str]:
        """What the runbook tells of a case."""
        return [event.kind.value for event in await self.resources.runbook.events(entry_id)]

    async def status(self, entry_id: UUID) -> str:
        """Where a case stands."""
        entry = await self.resources.runbook.entry(entry_id)
        assert entry is not None
        return entry.status.value

    async def effects(self) -> dict[str, int]:
        """What each transactional verb wrote and kept."""
        rows = await self.database.fetch("SELECT verb, count(*) FROM effect GROUP BY verb")
        return {row["verb"]: row["count"] for row in rows}

    async def count(self, table: str) -> int:
        """How many rows a table has."""
        return int(await self.value(f"SELECT count(*) FROM verbworker.{table}"))

    async def value(self, statement: str) -> Any:
        """The first column of the first row."""
        row = await self.database.fetchrow(statement)
        return None if row is None else row[0]


async def _deploy(world_engine: Engine, database: Database, registry: Registry, domain: str) -> None:
    content = lost_model(domain)
    woven = weave(content, registry)
    (deployed,) = await world_engine.deploy([Resource("case.bpmn", woven.content)])
    deployments = Deployments(database, engine_id=ENGINE_ID)
    await deployments.record(
        deployed, woven, resource="case.bpmn", authored_sha256=sha256(content).digest(), by="tests"
    )


@asynccontextmanager
async def lost_world(
    dsn: str,
    domain: str,
    engines: Sequence[Engine],
    losses: Losses,
    *,
    worker_dsn: str | None = None,
    poll_wait: float = 0.2,
) -> AsyncIterator[LostWorld]:
    """Two workers at work, one for each engine object; their engines are not open yet."""
    outside = Outside()
    registry = lost_registry(domain, outside)
    common = {"engine": "zeebe", "engine_id": ENGINE_ID, "tenant": TENANT, "http_port": 0, "poll_wait": poll_wait}
    own = Settings.model_validate({"dsn": dsn, **common})
    settings = Settings.model_validate({"dsn": worker_dsn or dsn, "verb_connections": 4, **common})
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(dsn, size=4))
        resources = await stack.enter_async_context(open_resources(own, registry))
        await database.execute("CREATE TABLE effect (verb text NOT NULL)")
        apps = [await stack.enter_async_context(open_app(settings, registry, engine)) for engine in engines]
        await _deploy(engines[0], database, registry, domain)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for app in apps:
            tasks.create_task(app.run(stop))
        try:
            yield LostWorld(domain, registry, losses, outside, engines, database, resources, apps)
        finally:
            stop.set()
