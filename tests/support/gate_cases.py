"""Gates where a test decides: entries wait there, and the verb behind reports the decision."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from tests.support.start_router import StartSetup, asking, open_starts
from verblint.contracts.contract import Argument, Gate
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Ask, Engine
from verbworker.job.job import RESERVED, Job
from verbworker.runbook.event import Event, Kind, Status
from verbworker.stores.cases.gates import HumanGate
from verbworker.stores.database import Database
from verbworker.testing.memory import MemoryEngine
from verbworker.work.gates.decide import GateRelay, Gates
from verbworker.work.gates.gate_jobs import USER_TASK, GateJobs

TENANT = "tests"
GATE = "review"


class Paper(BaseModel):
    """What is reviewed, and what the verb behind the gate was told."""

    title: str
    heard: list[str] = []
    escalated: bool = False


def review_registry(domain: str = "hall", *, gate: Gate | None = None, declared: bool = True) -> Registry:
    """`<domain>.review`: a person decides, then `<domain>.after` writes down what it heard of it."""
    verbs = Registry()

    @verbs.verb(f"{domain}.after", mode="transactional", writes=("heard",))
    async def after(paper: Paper, call: Call) -> Result[Paper]:
        """Write down what was decided."""
        heard = [f"{made.by}: {made.gate} {made.decision} ({made.reason})" for made in call.decisions]
        latest = call.decision(GATE)
        heard += [] if latest is None else [f"{name}: {value}" for name, value in latest.inputs.items()]
        return Result(paper.model_copy(update={"heard": heard}))

    @verbs.verb(f"{domain}.escalate", mode="transactional", writes=("escalated",))
    async def escalate(paper: Paper) -> Paper:
        """Ask somebody else."""
        return paper.model_copy(update={"escalated": True})

    workflow = WorkflowVerb(
        name=f"{domain}.review",
        version=1,
        process=f"{domain}-review",
        schema=f"{domain}.review/v1",
        args={"title": Argument(type="string", required=True)},
        initial={"title": "args.title"},
        outcome={"heard": "data.heard"},
        sub_verbs=(f"{domain}.after", f"{domain}.escalate"),
        gates={GATE: gate or Gate(GATE, "Review", ("approve", "reject"), "reviewer")} if declared else {},
    )
    return verbs.declare(workflow).check()


def job_of(gate: HumanGate) -> int:
    """The job of a task that is not native."""
    assert gate.job_key is not None
    return gate.job_key


@dataclass(frozen=True, slots=True)
class GateSetup:
    """Everything that people and a worker do at gates, over one engine and one database."""

    domain: str
    engine: Engine
    database: Database
    handler: GateJobs
    gates: Gates
    relay: GateRelay
    starts: StartSetup

    @property
    def without_engine(self) -> Gates:
        """Deciding where the engine cannot be reached, as the command line does."""
        return Gates(self.database)

    async def ask(self) -> UUID:
        """Have a paper reviewed; its entry."""
        entry = await self.starts.router.invoke(f'({self.domain}.review :title "A")', caller=asking())
        await self.starts.dispatcher.drain()
        return entry.entry_id

    async def task(self, *, timeout_ms: int = 300_000, wait_ms: int = 20_000) -> Job:
        """The next delivery of a user task."""
        (job,) = await self.engine.activate(Ask(USER_TASK, "hall", timeout_ms, RESERVED), 1, wait_ms)
        return job

    async def parked(self) -> HumanGate:
        """An entry that stands at its gate."""
        entry_id = await self.ask()
        await self.handler.serve(await self.task())
        return await self.gate(entry_id)

    async def gate(self, entry_id: UUID) -> HumanGate:
        """The latest gate of an entry, as it stands now."""
        return (await self.gates.list(TENANT, entry_id=entry_id, closed=True))[-1]

    async def decide(self, gate: HumanGate, decision: str = "approve", *, by: str = "anna") -> HumanGate:
        """Decide at a gate, and tell the engine."""
        return await self.gates.decide(gate.token_id, decision, reason="all is well", by=by, tenant_id=TENANT)

    async def kinds(self, entry_id: UUID) -> list[Kind]:
        """What the runbook tells of an entry."""
        return [event.kind for event in await self.events(entry_id)]

    async def events(self, entry_id: UUID) -> list[Event]:
        """The same with everything."""
        return await self.starts.runbook.events(entry_id)

    async def status(self, entry_id: UUID) -> Status:
        """Where an entry stands."""
        entry = await self.starts.runbook.entry(entry_id)
        assert entry is not None
        return entry.status

    async def change(self, gate: HumanGate, assignment: str) -> None:
        """Change a token as only a test may."""
        await self.database.execute(
            f"UPDATE verbworker.parked_token SET {assignment} WHERE token_id = $1", gate.token_id
        )

    async def due(self) -> None:
        """Let every pause before the engine is told again be over."""
        await self.database.execute("UPDATE verbworker.gate_decision SET next_at = clock_timestamp()")


@asynccontextmanager
async def opened(
    database: Database, engine: Engine, registry: Registry, *, domain: str = "hall", **options: Any
) -> AsyncIterator[GateSetup]:
    """Gates; their relay and their handler work when the test says so."""
    handler = GateJobs(registry, engine, database, **options)
    async with open_starts(database, registry, engine) as starts:
        yield GateSetup(domain, engine, database, handler, Gates(database, engine), GateRelay(database, engine), starts)


def memory() -> MemoryEngine:
    """An engine in which the process is a user task and the verb behind it."""
    engine = MemoryEngine("memory")
    engine.line("hall-review", [USER_TASK, "hall.after"])
    return engine
