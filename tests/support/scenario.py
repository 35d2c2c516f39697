"""Scenarios: a drawing, what is told to its instances, and what everybody can see of them afterwards."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.support.drawing import Drawing
from tests.support.stages import Stage
from verbworker.engine.embedded.kernel.definition import USER_TASK
from verbworker.engine.protocol import Ask, Deployed, Resource, Signal, Start
from verbworker.errors import JobGone, JobNotActive
from verbworker.job.job import PAYLOAD, PAYLOAD_HASH, Job
from verbworker.job.outcome import JobResult

VARIABLES = (
    *("orch_a", "orch_b", "orch_x", "orch_y", "orch_again", "corr_key"),
    *("order", "amount", "price", "country", "paid"),  # of plain models
    *(PAYLOAD, PAYLOAD_HASH),
)
LONG_MS = 20 * 24 * 3600 * 1000  # longer than any scenario moves the clock
_WAIT_S = 5
_TYPE = re.compile(rb'(<zeebe:(?:taskDefinition|executionListener)\b[^>]*?\btype=")([^"]+)"')
_MESSAGE = re.compile(rb'(<bpmn:message id="[^"]+" name=")')
_PROCESS = re.compile(rb'(<bpmn:process id=")')

Script = Callable[["Play"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One story that every engine must tell alike."""

    name: str
    script: Script
    drawings: tuple[Drawing, ...]
    without: tuple[str, ...]
    proves: tuple[str, ...] = ()


SCENARIOS: list[Scenario] = []


def scenario(
    *drawings: Drawing, without: tuple[str, ...] = (), proves: tuple[str, ...] = ()
) -> Callable[[Script], Script]:
    """Add a script that proves requirements; `without` names engines that do not offer what it uses."""

    def add(script: Script) -> Script:
        SCENARIOS.append(Scenario(script.__name__, script, drawings, without, proves))
        return script

    return add


@dataclass
class Play:
    """One scenario on one stage. Names of a drawing are this play's own, so that a stage may be shared."""

    stage: Stage
    engine_name: str
    uid: str = field(default_factory=lambda: f"s{uuid4().hex[:10]}")
    instance: int = 0  # the one that was started last
    _types: set[str] = field(default_factory=set)
    _processes: list[str] = field(default_factory=list)
    _taken: dict[int, Job] = field(default_factory=dict)

    # ---- what is told -----------------------------------------------------------------------------------------------

    async def deploy(self, *drawings: Drawing) -> list[Deployed]:
        """Deploy drawings under names of this play's own."""
        resources = [Resource(f"{drawing.process}.bpmn", self._own(drawing)) for drawing in drawings]
        deployed = await self.stage.engine.deploy(resources)
        self._processes += [known.process_id for known in deployed if known.process_id not in self._processes]
        return deployed

    async def start(self, process: str = "p", *, version: int = -1, **variables: Any) -> int:
        """Start an instance; returns its key."""
        started = await self.stage.engine.start(Start(self.process(process), variables, version=version))
        self.instance = started.instance_key
        return self.instance

    async def complete(self, kind: str, **variables: Any) -> None:
        """Complete the oldest job of a type that is seen."""
        job = self.job(kind)
        await self.stage.engine.complete(job.key, JobResult(flags=variables))
        del self._taken[job.key]

    async def fail(self, kind: str, *, retries: int, backoff_s: float = 0) -> Job:
        """Give a job back; returns it."""
        job = self.job(kind)
        await self.stage.engine.fail(job.key, retries=retries, message="no", backoff_ms=round(backoff_s * 1000))
        del self._taken[job.key]
        return job

    async def throw(self, kind: str, code: str) -> Job:
        """End a job by an error; returns it."""
        job = self.job(kind)
        await self.stage.engine.throw(job.key, code=code, message="no")
        self._taken.pop(job.key)
        return job

    async def release(self, job: Job, *, retries: int = 3) -> None:
        """Give a job new retries and resolve its incident."""
        await self.stage.engine.release(job.key, retries=retries)
        await self.stage.resolve(job.process_instance_key)

    async def resolve(self, **variables: Any) -> None:
        """Change variables and resolve the incident that must be there."""
        if variables:
            await self.stage.set_variables(self.instance, variables)
        await self.stage.settle(self.instance)
        assert await self.stage.resolve(self.instance), "there was no incident to resolve"

    async def publish(self, name: str, key: str = "k", *, id: str = "", ttl_s: float = 3600, **variables: Any) -> None:
        """Publish a message."""
        signal = Signal(f"{self.uid}.{name}", key, id or uuid4().hex, round(ttl_s * 1000), variables)
        await self.stage.engine.publish(signal)

    async def correlate(self, name: str, key: str = "k", **variables: Any) -> int | None:
        """Hand a message over at once; returns the instance that has it."""
        return await self.stage.engine.correlate(f"{self.uid}.{name}", key, variables)

    async def advance(self, seconds: float) -> None:
        """Let time pass, once everything that was told is done."""
        await self.stage.settle(self.instance)
        await self.stage.advance(seconds)

    async def cancel(self) -> None:
        """Cancel the instance that was started last."""
        await self.stage.engine.cancel(self.instance)

    # ---- what is seen -----------------------------------------------------------------------------------------------

    async def sees(self, *kinds: str) -> None:
        """The jobs that somebody works on or may work on are exactly these."""
        wanted = Counter(kinds)

        async def are_seen() -> bool:
            return await self._look(wanted - self._seen()) == wanted and await self._stays(wanted)

        if not await _comes_true(are_seen):
            raise AssertionError(f"sees {sorted(self._seen().elements())}, not {sorted(kinds)}")

    async def ends(self) -> None:
        """The instance that was started last is there no more, and has no job."""
        await self.sees()

        async def is_gone() -> bool:
            return not await self.stage.engine.alive(self.instance)

        assert await _comes_true(is_gone), "the instance lives"

    async def lives(self, *kinds: str) -> None:
        """The instance that was started last is there, with exactly these jobs."""
        await self.sees(*kinds)
        assert await self.stage.engine.alive(self.instance), "the instance has ended"

    async def stands(self, *incidents: str) -> None:
        """The instance lives without a job anybody may work on; its incidents are these, where they can be seen."""
        await self.lives()
        seen = await self.stage.incidents(self.instance)
        assert seen is None or seen == sorted(incidents)

    def job(self, kind: str) -> Job:
        """The oldest job of a type that is seen."""
        found = [job for job in self._taken.values() if self._short(job) == kind]
        return min(found, key=lambda job: job.key)

    def jobs(self) -> list[Job]:
        """Every job that is seen."""
        return list(self._taken.values())

    def carries(self, kind: str) -> Mapping[str, object]:
        """The variables a job was handed out with."""
        return self.job(kind).variables

    def process(self, name: str) -> str:
        """The id a process has on the stage."""
        return f"{self.uid}-{name}"

    def type(self, kind: str) -> str:
        """The type a job has on the stage."""
        return USER_TASK if kind == "user" else f"{self.uid}.{kind}"

    async def take(self, kind: str, timeout_s: float) -> Job:
        """Take one job for a time of the scenario's own choice."""
        ask = Ask(self.type(kind), "scenario", round(timeout_s * 1000), VARIABLES)
        (job,) = await self.stage.engine.activate(ask, 1, _WAIT_S * 1000)
        return job

    # ---- inside -----------------------------------------------------------------------------------------------------

    async def _look(self, missing: Counter[str]) -> Counter[str]:
        polls = [self._poll(kind, 300 if missing[kind] else -1) for kind in sorted(self._types)]
        await asyncio.gather(*(self._probe(job) for job in self._taken.values()), *polls)
        return self._seen()

    async def _probe(self, job: Job) -> None:
        try:
            await self.stage.engine.extend(job.key, LONG_MS)
        except (JobGone, JobNotActive):
            del self._taken[job.key]

    async def _poll(self, kind: str, wait_ms: int) -> None:
        ask = Ask(self.type(kind), "scenario", LONG_MS, VARIABLES)
        for job in await self.stage.engine.activate(ask, 20, wait_ms):
            if job.process_id in self._processes:
                self._taken[job.key] = job
            else:  # user tasks have one type for everybody
                await self.stage.engine.fail(job.key, retries=job.retries, message="somebody else's")

    async def _stays(self, wanted: Counter[str]) -> bool:
        await self.stage.settle(self.instance)
        return await self._look(Counter()) == wanted

    def _seen(self) -> Counter[str]:
        return Counter(self._short(job) for job in self._taken.values())

    def _short(self, job: Job) -> str:
        return "user" if job.type == USER_TASK else job.type.removeprefix(f"{self.uid}.")

    def _own(self, drawing: Drawing) -> bytes:
        model, prefix = drawing.xml(), self.uid.encode()
        self._types |= {kind.decode() for _, kind in _TYPE.findall(model)}
        self._types |= {"user"} if b"<bpmn:userTask" in model else set()
        model = _TYPE.sub(rb"\g<1>" + prefix + rb'.\g<2>"', model)
        model = _MESSAGE.sub(rb"\g<1>" + prefix + b".", model)
        return _PROCESS.sub(rb"\g<1>" + prefix + b"-", model)


async def _comes_true(holds: Callable[[], Awaitable[bool]]) -> bool:
    """Whether something holds soon: engines do part of their work after they have answered."""
    deadline = time.monotonic() + _WAIT_S
    while not await holds():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True
