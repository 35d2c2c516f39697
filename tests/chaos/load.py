"""The load of a chaos run: instances started one after the other, and an audit at the end of each."""

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import grpc
from pyzeebe.proto import gateway_pb2 as messages
from pyzeebe.proto.gateway_pb2_grpc import GatewayStub

from tests.chaos.verbs import workflow_of
from tests.support.models import line
from tests.support.start import prepare
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Resource, Start
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import Backpressure, EngineUnavailable, StoreError, StoreUnavailable
from verbworker.job.job import PAYLOAD
from verbworker.runbook.event import Kind
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database

ENGINE_ID = "chaos"
HARNESS = "harness"
"""The name of the test's own database sessions, which no fault touches."""
_AUDIT_TIMEOUT_MS = 10_000
_TIMEOUT = 120.0


@dataclass(slots=True)
class Load:
    """Instances of one domain: each runs its verbs, then stands at an audit that this test completes."""

    domain: str
    address: str
    workflow: WorkflowVerb
    engine: ZeebeEngine
    database: Database
    line: Sequence[str]
    runbook: Runbook
    first: int = 0
    started: dict[int, int] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)
    entries: dict[int, UUID] = field(default_factory=dict)  # by instance key
    ended: set[UUID] = field(default_factory=set)
    audited: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    # Held while an outage would leave it open whether an instance was started.
    calm: asyncio.Lock = field(default_factory=asyncio.Lock)
    moved: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def deploy(self) -> None:
        """Deploy the line of verbs with the audit behind it. A spent retry would be an incident: none is to spare."""
        types = [f"{self.domain}.{verb}" for verb in (*self.line, "audit")]
        model = line(self.workflow.process, types, retries=1)
        await self.engine.deploy([Resource(f"{self.workflow.process}.bpmn", model)])

    async def start(self, count: int, *, pause: float = 0.0) -> None:
        """Start so many instances, with a pause after each."""
        first = self.first + len(self.started) + len(self.unsure)
        for number in range(first, first + count):
            async with self.calm:
                await self._start_one(number)
            await asyncio.sleep(pause)

    async def _start_one(self, number: int) -> None:
        ready = await prepare(self.database, ENGINE_ID, self.workflow, {"number": number}, has_entry=True)
        while True:
            try:
                started = await self.engine.start(Start(self.workflow.process, ready.variables))
            except Backpressure:
                await asyncio.sleep(0.05)
            except EngineUnavailable:
                # It may run or not; neither is anybody's fault but the outage's.
                self.unsure.add(number)
                return
            else:
                break
        self.started[number] = started.instance_key
        self.entries[started.instance_key] = ready.entry_id
        with contextlib.suppress(StoreUnavailable):  # the first job pins it then
            await Instances(self.database).pin(
                ready.instance_uid,
                instance_key=started.instance_key,
                definition_key=started.definition_key,
                version=started.version,
            )

    @property
    def arrived(self) -> int:
        """How many of the instances that surely were started have come to their audit."""
        return len(self.audited.keys() & set(self.started.values()))

    def missing(self) -> list[UUID]:
        """Return the entries of the instances that surely were started and have not come to their audit."""
        return [self.entries[key] for key in self.started.values() if key not in self.audited]

    async def reach(self, count: int) -> None:
        """Return when so many instances have come to their audit."""
        async with asyncio.timeout(_TIMEOUT), self.moved:
            await self.moved.wait_for(lambda: self.arrived >= count)

    async def audit(self) -> None:
        """Complete the audits and keep what each instance carried when it arrived there, until cancelled."""
        request = messages.ActivateJobsRequest(
            type=f"{self.domain}.audit",
            worker="audit",
            timeout=_AUDIT_TIMEOUT_MS,
            maxJobsToActivate=32,
            requestTimeout=2_000,
        )
        async with grpc.aio.insecure_channel(self.address) as channel:
            stub: Any = GatewayStub(channel)  # grpc ships no types
            while True:
                try:
                    jobs = [job async for answer in stub.ActivateJobs(request, timeout=10) for job in answer.jobs]
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.2)
                    continue
                await asyncio.gather(*(self._audit_one(stub, job) for job in jobs))
                with contextlib.suppress(StoreError):  # after the next audit then
                    await self._end_entries()

    async def _end_entries(self) -> None:
        """End the entries of what arrived, as the listener does that a deployment weaves into a model."""
        arrived = {entry for key, entry in self.entries.items() if key in self.audited}
        for entry in arrived - self.ended:
            await self.runbook.append(entry, Kind.RESULT, once="result", detail={"result": "ok"})
            self.ended.add(entry)

    async def _audit_one(self, stub: Any, job: Any) -> None:
        async with self.moved:
            self.audited[int(job.processInstanceKey)].add(json.loads(job.variables)[PAYLOAD])
            self.moved.notify_all()
        with contextlib.suppress(grpc.aio.AioRpcError):  # delivered again, and then it must carry the same
            await stub.CompleteJob(messages.CompleteJobRequest(jobKey=job.key), timeout=10)


@asynccontextmanager
async def loaded(domain: str, line: Sequence[str], dsn: str, address: str, first: int = 0) -> AsyncIterator[Load]:
    """A load on a migrated database and a running broker: deployed, its audits served; numbers begin at `first`."""
    engine = ZeebeEngine(GatewayAddress(address=address), engine_id=ENGINE_ID)
    ours = {"application_name": HARNESS}
    async with engine, Database(dsn, size=2, settings=ours) as database, asyncio.TaskGroup() as tasks:
        load = Load(domain, address, workflow_of(domain, line), engine, database, line, Runbook(database), first)
        await load.deploy()
        auditing = tasks.create_task(load.audit())
        try:
            yield load
        finally:
            auditing.cancel()
