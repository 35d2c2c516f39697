"""The kit: one database, one in-memory engine, and any number of worker restarts to crash."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from pydantic import BaseModel

from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Ask, Start
from verbworker.errors import CannotRun
from verbworker.job import failpoint
from verbworker.job.failpoint import Point
from verbworker.job.job import PAYLOAD, RESERVED
from verbworker.model.start_variables import begin
from verbworker.payload.canonical import parse
from verbworker.payload.envelope import HARD_LIMIT
from verbworker.stores.cases.instances import Instance, Instances
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.sql import query
from verbworker.testing.memory import JobState, MemoryEngine, MemoryJob
from verbworker.work.feeds.leases import Leases
from verbworker.work.jobs.executor import Databases, Executor
from verbworker.work.jobs.perform import VerbRun

_MOST_DELIVERIES = 10  # ends the test of a verb that never settles; the default policy needs 3
_SETTLED = (JobState.COMPLETED, JobState.INCIDENT, JobState.THROWN)


class Crash(BaseException):
    """The worker died here. Not an `Exception`, so nothing can catch it by accident."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a verb: its job's final state, the data, the flags, and the number of deliveries."""

    state: JobState
    data: Mapping[str, object]
    flags: Mapping[str, object]
    deliveries: int
    error_code: str | None
    messages: Sequence[str]


@dataclass(frozen=True, slots=True)
class TaskRan:
    """The result of a plain task: its job's final state, the variables it answered, and the number of deliveries."""

    state: JobState
    variables: Mapping[str, object]
    deliveries: int
    error_code: str | None
    messages: Sequence[str]


class Kit:
    """Runs verbs as a worker would, crashes included. Open it with `Kit.open`."""

    def __init__(self, registry: Registry, database: Database, tasks: asyncio.TaskGroup) -> None:
        self.engine = MemoryEngine(f"memory-{uuid4().hex[:8]}")
        self.database = database
        self._registry = _without_signatures(registry.check())
        self._tasks = tasks
        self._threads = ThreadPoolExecutor(4)
        self._boot: asyncio.Task[None] | None = None
        self._executor: Executor | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, registry: Registry) -> AsyncIterator["Kit"]:
        """Open a kit on a migrated database."""
        async with Database(dsn, size=8) as database, asyncio.TaskGroup() as tasks:
            kit = cls(registry, database, tasks)
            try:
                kit.boot()
                yield kit
            finally:
                failpoint.arm(None)
                kit._stop()
                kit._threads.shutdown(wait=False)

    def boot(self) -> None:
        """Restart the worker: a new owner, nothing in memory."""
        self._stop()
        frames = Frames(self.database, engine_id=self.engine.engine_id, owner=uuid4(), lease=timedelta(seconds=30))
        self._boot = self._tasks.create_task(frames.run())
        leases = Leases(frames, self.engine, engine_timeout_ms=60_000)
        databases = Databases(control=self.database, verbs=self.database)
        verb_run = VerbRun(self._threads, tracebacks=True)
        self._executor = Executor(self._registry, self.engine, frames, databases, leases, verb_run)

    def _stop(self) -> None:
        if self._boot is not None:
            self._boot.cancel()

    async def run(self, verb: str, case: BaseModel, *, crash_at: Point | None = None) -> Ran:
        """Run a verb on a case until its job is settled; with `crash_at` the worker dies there, once."""
        started = await self.start(self._caller(verb), case.model_dump(mode="json", by_alias=True), [verb])
        known = next(known for known in self.engine.jobs.values() if known.job.process_instance_key == started)
        for _ in range(_MOST_DELIVERIES):
            if known.state in _SETTLED:
                break
            await self.deliver(verb, crash_at=crash_at)
            crash_at = None
        if known.state is JobState.COMPLETED:
            # The first worker's report may have been lost: relaying it must change nothing.
            self.engine.redeliver(known.job.key)
            await self.deliver(verb)
        return self._collect(known, started)

    async def run_task(self, type: str, variables: Mapping[str, object], *, crash_at: Point | None = None) -> "TaskRan":
        """Run a plain task on these variables until its job is settled; with `crash_at` the worker dies there, once."""
        if self._registry.find_task(type) is None:
            raise CannotRun(f"no plain task {type} is registered")
        process = f"plain-{uuid4().hex}"
        self.engine.line(process, [type])
        started = (await self.engine.start(Start(process, variables))).instance_key
        known = next(known for known in self.engine.jobs.values() if known.job.process_instance_key == started)
        for _ in range(_MOST_DELIVERIES):
            if known.state in _SETTLED:
                break
            await self.deliver(type, crash_at=crash_at)
            crash_at = None
        messages = tuple(known.messages)
        return TaskRan(known.state, dict(known.variables), known.deliveries, known.error_code, messages)

    async def start(self, workflow: WorkflowVerb, data: Mapping[str, object], line: Sequence[str]) -> int:
        """Start an instance of `workflow` whose process is this sequence of verbs; return its key."""
        self.engine.line(workflow.process, line)
        ready = begin(
            workflow, data, instance_uid=uuid4(), entry_id=uuid4(), tenant_id="<default>", at=datetime.now(UTC)
        )
        await Instances(self.database).open(Instance.of(workflow, ready, engine_id=self.engine.engine_id))
        return (await self.engine.start(Start(workflow.process, ready.variables))).instance_key

    async def deliver(self, verb: str, *, crash_at: Point | None = None) -> int:
        """Activate a verb's jobs once and execute them; return how many there were."""
        task = self._registry.find_task(verb)
        names = (*RESERVED, *self._registry.flags_of(verb)) if task is None else task.variables
        ask = Ask(type=verb, worker="kit", timeout_ms=60_000, variables=names)
        jobs = await self.engine.activate(ask, 100, 0)
        for job in jobs:
            assert self._executor is not None
            try:
                failpoint.arm(_strike_at(crash_at) if crash_at else None)
                await self._executor.execute(job)
            except Crash:
                self.boot()
                await self.database.execute(query("testing", "expire_leases"), self.engine.engine_id)
                self.engine.time_out(job.key)
            finally:
                failpoint.arm(None)
        self.engine.advance(3600)
        await self.database.execute(query("testing", "end_backoffs"), self.engine.engine_id)
        return len(jobs)

    def _caller(self, verb: str) -> WorkflowVerb:
        if self._registry.find(verb) is None:
            raise CannotRun(f"no verb {verb} is registered")
        callers = self._registry.callers(verb)
        if not callers:
            raise CannotRun(f"no workflow verb lists {verb}, so its flags are unknown")
        return callers[0]

    def _collect(self, known: MemoryJob, instance_key: int) -> Ran:
        variables = self.engine.variables(instance_key)
        envelope = parse(str(variables[PAYLOAD]).encode(), limit=HARD_LIMIT)
        return Ran(
            state=known.state,
            data=envelope["data"],
            flags={name: value for name, value in known.variables.items() if name.startswith("orch_")},
            deliveries=known.deliveries,
            error_code=known.error_code,
            messages=tuple(known.messages),
        )


def _without_signatures(registry: Registry) -> Registry:
    """Return the registry without signed payloads: signing belongs to the deployment, and verbs see no difference."""
    plain = Registry()
    for verb in registry:
        plain.add(verb)
    for task in registry.tasks.values():
        plain.add_task(task)
    workflows = [replace(workflow, integrity="plain") for workflow in registry.workflows.values()]
    return plain.declare(*workflows, policies=registry.policies.values(), upgrades=registry.upgrades)


def _strike_at(point: Point) -> failpoint.Action:
    def strike(reached: Point) -> None:
        if reached is point:
            raise Crash(point.value)

    return strike
