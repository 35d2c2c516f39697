"""Cases of real processes on a real broker with every listener served, one job at a time, when a test says so."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from pydantic import BaseModel

from tests.support.eventually import eventually
from tests.support.flags import flag_contract
from tests.support.rig import TIMEOUT_MS, RecordingEngine
from tests.support.rig import opened as opened_rig
from tests.support.start_router import TENANT, asking, open_starts
from verblint.contracts.contract import Argument, Flag, FlagType, Gate
from verbworker.contract.message import Message
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Ask, Resource
from verbworker.errors import JobGone
from verbworker.job.frame import Frame
from verbworker.job.job import RESERVED, Job
from verbworker.model.weave import weave
from verbworker.payload.signature import KeyRing
from verbworker.runbook.event import Entry, Event, Kind, OpenToken
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.feeds.leases import Leases
from verbworker.work.feeds.worker import Pace, Worker
from verbworker.work.gates.gate_jobs import GateJobs
from verbworker.work.gates.user_tasks import UserTaskJobs
from verbworker.work.jobs.executor import Databases, Executor
from verbworker.work.jobs.perform import VerbRun
from verbworker.work.jobs.verdicts import JobResults, Relay
from verbworker.work.listeners.bridge import Bridge
from verbworker.work.listeners.completion import CompletionListener
from verbworker.work.listeners.job_handler import JobHandler, ListenerJobs
from verbworker.work.messages.delivery import MessageDelivery
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.starts.dispatcher import Dispatcher
from verbworker.work.starts.duplicate_instances import InstanceIdentity
from verbworker.work.starts.router import Router
from verbworker.work.upkeep.reconciler import Reconciler
from verbworker.work.upkeep.retention import Archiver

PARK, UNPARK, FIRED = "verbworker.park", "verbworker.unpark", "verbworker.fired"
COMPLETE, START = "verbworker.complete", "verbworker.start"
GATE = "io.camunda.zeebe:userTask"
_MOST_OF_OTHERS = 100


class Case(BaseModel):
    """What the steps write."""

    name: str
    first: str | None = None
    second: str | None = None


def case_registry(domain: str, message: str) -> Registry:
    """`<domain>.case`: two steps, one message, one flag, one gate."""
    verbs = Registry()

    @verbs.verb(f"{domain}.first", mode="transactional", writes=("first",))
    async def first(case: Case, call: Call) -> Result[Case]:
        """Write one field, and say so."""
        return Result(case.model_copy(update={"first": "done"}), flags={"orch_first": True})

    @verbs.verb(f"{domain}.second", mode="transactional", writes=("second",))
    async def second(case: Case) -> Case:
        """Write the other field."""
        return case.model_copy(update={"second": "done"})

    return verbs.declare(
        WorkflowVerb(
            name=f"{domain}.case",
            version=1,
            process=f"{domain}-case",
            schema=f"{domain}.case/v1",
            args={"name": Argument(type="string", required=True)},
            initial={"name": "args.name"},
            outcome={"first": "data.first", "second": "data.second"},
            correlation={"corr_case": "${args.name}"},
            messages={message: "corr_case"},
            gates={"review": Gate("review", "review", ("yes", "no"), "reviewer")},
            sub_verbs=(f"{domain}.first", f"{domain}.second"),
            flag_contract=flag_contract(Flag("orch_first", FlagType.BOOLEAN, False)),
        )
    )


@dataclass(slots=True)
class CaseSetup:
    """One database, one broker, and a handler for every type of job."""

    domain: str
    message: str
    registry: Registry
    engine: RecordingEngine
    database: Database
    frames: Frames
    leases: Leases
    executor: Executor
    router: Router
    dispatcher: Dispatcher
    dispatches: Dispatches
    deployments: Deployments
    inbox: Inbox
    message_delivery: MessageDelivery
    cancelling: Cancellation
    reconciler: Reconciler
    runbook: Runbook
    handlers: Mapping[str, JobHandler]
    taken: dict[str, list[Job]] = field(default_factory=dict)
    entries: list[UUID] = field(default_factory=list)

    @property
    def workflow(self) -> WorkflowVerb:
        """The verb under test."""
        return self.registry.workflows[f"{self.domain}.case"]

    async def deploy(self, draw: Callable[..., bytes], *verbs: str, **options: Any) -> int:
        """Weave and deploy a model of `case_models`."""
        content = draw(self.workflow.process, self.message, self.domain, *verbs, **options)
        woven = weave(content, self.registry)
        (deployed,) = await self.engine.deploy([Resource("case.bpmn", woven.content)])
        await self.deployments.record(
            deployed, woven, resource="case.bpmn", authored_sha256=sha256(content).digest(), by="tests"
        )
        return deployed.definition_key

    async def ask(self, name: str | None = None) -> UUID:
        """Ask for a case; the engine has not heard of it."""
        entry = await self.router.invoke(self.workflow.name, {"name": name or f"{self.domain}-key"}, caller=asking())
        self.entries.append(entry.entry_id)
        return entry.entry_id

    async def start(self, draw: Callable[..., bytes], *verbs: str, **options: Any) -> UUID:
        """Deploy a model, ask for a case, and have the engine start it."""
        await self.deploy(draw, *verbs, **options)
        entry_id = await self.ask()
        await self.dispatcher.drain()
        return entry_id

    # ---- jobs ------------------------------------------------------------------------------------------------------

    async def take(self, kind: str, *, timeout_ms: int = 60_000, wait_ms: int = TIMEOUT_MS) -> Job:
        """One job of this type; there must come one."""
        kind = kind if kind in self.handlers else f"{self.domain}.{kind}"
        handler = self.handlers.get(kind)
        names = (*RESERVED, *self.registry.flags_of(kind))
        ask = Ask(kind, "case_setup", timeout_ms, handler.variables if handler else names)
        for _ in range(_MOST_OF_OTHERS):
            jobs = await self.engine.activate(ask, 1, wait_ms)
            assert jobs, f"no job of {kind} came"
            if self._is_ours(jobs[0]):
                self.taken.setdefault(kind, []).append(jobs[0])
                return jobs[0]
        raise AssertionError(f"only other tests' jobs of {kind} came")

    def _is_ours(self, job: Job) -> bool:
        """Listeners have one type for every process, and one broker serves every test: others leave jobs behind."""
        owned = {workflow.process for workflow in self.registry.workflows.values()}
        return job.process_id in owned or self.domain in job.process_id

    async def has(self, kind: str) -> bool:
        """Whether a job of this type is there now."""
        kind = kind if kind in self.handlers else f"{self.domain}.{kind}"
        found = await self.engine.activate(Ask(kind, "case_setup", 1000, ()), _MOST_OF_OTHERS, -1)
        return any(self._is_ours(job) for job in found)

    async def serve(self, *kinds: str) -> Job:
        """Take and serve one job of each type, in this order; the last one comes back."""
        for kind in kinds:
            job = await self.take(kind)
            await self.deliver(job)
        return job

    async def deliver(self, job: Job) -> None:
        """Serve a delivery, perhaps once more."""
        handler = self.handlers.get(job.type)
        await (handler.serve(job) if handler is not None else self.executor.execute(job))

    # ---- messages --------------------------------------------------------------------------------------------------

    async def send(self, message_id: str = "m-1", *, to: str | None = None, **payload: Any) -> None:
        """A message for the case comes in and is published."""
        letter = Message(
            message_name=self.message,
            message_id=f"{self.domain}-{message_id}",
            correlation_key=to or f"{self.domain}-key",
            tenant_id=TENANT,
            payload=payload,
        )
        await self.inbox.receive(letter, sent_by="tests", ttl=timedelta(hours=1))
        await self.message_delivery.drain()

    # ---- looking ---------------------------------------------------------------------------------------------------

    async def entry(self, entry_id: UUID) -> Entry:
        """An entry as it stands."""
        entry = await self.runbook.entry(entry_id)
        assert entry is not None
        return entry

    async def status(self, entry_id: UUID) -> str:
        """Where an entry stands."""
        return (await self.entry(entry_id)).status.value

    async def events(self, entry_id: UUID, *kinds: Kind) -> list[Event]:
        """What happened, or what of some kinds."""
        events = await self.runbook.events(entry_id)
        return [event for event in events if not kinds or event.kind in kinds]

    async def kinds(self, entry_id: UUID) -> list[str]:
        """The names of what happened."""
        return [event.kind.value for event in await self.events(entry_id)]

    async def waits(self, entry_id: UUID) -> list[OpenToken]:
        """What an entry waits for."""
        return await self.runbook.waits(entry_id)

    async def reasons(self, entry_id: UUID) -> list[str]:
        """What an entry waits for, in words."""
        return [wait.reason for wait in await self.waits(entry_id)]

    async def instance_key(self, entry_id: UUID) -> int:
        """The engine's key of an entry's instance."""
        carrier = await Instances(self.database).of_entry(entry_id)
        assert carrier is not None
        assert carrier.instance_key is not None
        return carrier.instance_key

    async def uid(self, entry_id: UUID) -> UUID:
        """Our own key of it."""
        carrier = await Instances(self.database).of_entry(entry_id)
        assert carrier is not None
        return carrier.instance_uid

    async def until_gone(self, instance_key: int) -> None:
        """Return when the engine has ended an instance."""

        async def gone() -> bool:
            return not await self.engine.alive(instance_key)

        await eventually(gone)

    async def frame(self, job: Job) -> Frame:
        """The frame of a job."""
        frame = await self.frames.read(job.key)
        assert frame is not None
        return frame

    async def idempotency_key(self, job: Job) -> str:
        """The key that the outside sees of a job."""
        row: Any = await self.database.fetchrow(
            "SELECT idempotency_key FROM verbworker.job_frame WHERE job_key = $1", job.key
        )
        return str(row[0])

    async def expire(self, job: Job) -> None:
        """Let the lease of a job's frame be over."""
        await self.database.execute(
            "UPDATE verbworker.job_frame SET lease_until = clock_timestamp() - interval '1 second' WHERE job_key = $1",
            job.key,
        )

    async def age(self, entry_id: UUID) -> None:
        """Let nothing have been heard of an entry for a day."""
        await self.database.execute(
            "UPDATE verbworker.runbook_entry SET updated_at = updated_at - interval '1 day' WHERE entry_id = $1",
            entry_id,
        )
        await self.database.execute(
            "UPDATE verbworker.workflow_instance SET missed_at = missed_at - interval '1 day' WHERE entry_id = $1",
            entry_id,
        )


async def _end(setup: CaseSetup, entry_id: UUID) -> None:
    carrier = await Instances(setup.database).of_entry(entry_id)
    if carrier is not None and carrier.instance_key is not None:
        with suppress(JobGone):
            await setup.engine.cancel(carrier.instance_key)


@asynccontextmanager
async def case_setup(
    dsn: str,
    address: str,
    domain: str,
    registry: Registry | None = None,
    *,
    rest_url: str | None = None,
    ring: KeyRing | None = None,
) -> AsyncIterator[CaseSetup]:
    """Cases on a migrated database and a running broker; what it leaves in the engine is cancelled."""
    message = f"{domain}-letter"
    known = registry or case_registry(domain, message)
    async with (
        opened_rig(dsn, address, known, rest_url=rest_url, ring=ring) as rig,
        open_starts(rig.database, known, rig.engine, ring=ring) as handler,
    ):
        engine, database = rig.engine, rig.database
        identity = InstanceIdentity(Instances(database), engine, handler.dispatches)
        listener_jobs = ListenerJobs(database, engine, identity)
        deployments = Deployments(database, engine_id=engine.engine_id)
        inbox = Inbox(database, engine_id=engine.engine_id, owner=uuid4())
        cancelling = Cancellation(database, handler.dispatches, engine)
        handlers: list[JobHandler] = Bridge(known, database, deployments, inbox, listener_jobs).handlers()
        handlers += [
            CompletionListener(known, database, listener_jobs, cancelling, ring=ring),
            GateJobs(known, engine, database),
        ]
        handlers += UserTaskJobs(known, engine, database, listener_jobs, identity=identity).handlers()
        threads = ThreadPoolExecutor(2)
        databases, verb_run = Databases(database, database), VerbRun(threads)
        executor = Executor(known, engine, rig.frames, databases, rig.leases, verb_run, ring=ring, identity=identity)
        setup = CaseSetup(
            domain=domain,
            message=message,
            registry=known,
            engine=engine,
            database=database,
            frames=rig.frames,
            leases=rig.leases,
            executor=executor,
            router=handler.router,
            dispatcher=handler.dispatcher,
            dispatches=handler.dispatches,
            deployments=deployments,
            inbox=inbox,
            message_delivery=MessageDelivery(known, inbox, DeadLetters(database), engine),
            cancelling=cancelling,
            reconciler=Reconciler(database, engine, cancelling, after=timedelta(hours=1)),
            runbook=Runbook(database),
            handlers={served.type: served for served in handlers},
        )
        try:
            yield setup
        finally:
            for entry_id in setup.entries:
                await _end(setup, entry_id)
            threads.shutdown(wait=False)


@asynccontextmanager
async def working(setup: CaseSetup) -> AsyncIterator[None]:
    """A worker with every handler at work; in the end it drains."""
    frames, engine, stop = setup.frames, setup.engine, asyncio.Event()
    relay, reaper = Relay(frames, JobResults(engine, frames)), Archiver(frames)
    pace = Pace(name="case_setup", poll_wait=timedelta(seconds=1))
    worker = Worker(
        setup.registry,
        engine,
        frames,
        setup.executor,
        setup.leases,
        relay,
        reaper,
        pace,
        handlers=list(setup.handlers.values()),
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run(stop))
        try:
            yield
        finally:
            stop.set()
