"""The engine as one process reaches it: calls take time, answers get lost, the line may be cut."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

from tests.simulator.engine import EngineModel
from tests.simulator.loop import Process
from tests.simulator.shapes import DEFINITION_KEYS
from tests.simulator.store import Calls
from verbworker.engine.protocol import (
    ActiveElement,
    Ask,
    Deployed,
    EngineFacts,
    EngineIncident,
    Resource,
    Signal,
    Start,
    Started,
    Variables,
)
from verbworker.engine.variables import variables_of
from verbworker.errors import EngineUnavailable, NotOffered
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult

VERSION = "8.6.0"

Lose = Callable[[str], Awaitable[None]]


class SimulatedEngine:
    """Stands in for an engine in one process."""

    def __init__(self, model: EngineModel, process: Process, calls: Calls, lose: Lose) -> None:
        self._model = model
        self._process = process
        self._calls = calls
        self._lose = lose

    @property
    def engine_id(self) -> str:
        """The name of the engine."""
        return "sim"

    async def _call(self, name: str, act: Callable[[], Any]) -> Any:
        lost = await self._calls(self._process, "engine", name)
        answer = act()
        if lost is not None:
            await self._lose(lost)
            if lost == "lost":
                raise EngineUnavailable("the answer was lost")
        return answer

    async def facts(self) -> EngineFacts:
        """What it is."""
        return EngineFacts(version=VERSION, brokers=1, partitions=1)

    async def deploy(self, resources: Sequence[Resource]) -> list[Deployed]:
        """Everything is deployed."""
        return []

    async def start(self, start: Start) -> Started:
        """Create an instance."""
        key = await self._call("start", lambda: self._model.start(start.process_id, start.variables))
        return Started(key, DEFINITION_KEYS[start.process_id], start.process_id, 1)

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        """Jobs are pushed here."""
        raise NotImplementedError

    async def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        """Jobs are pushed here."""
        raise NotImplementedError
        yield

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        """Complete a job."""
        await self._call("complete", lambda: self._model.complete(job_key, variables_of(result)))

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        """Fail a job."""
        await self._call("fail", lambda: self._model.fail(job_key, retries, message, backoff_ms))

    async def throw(self, job_key: int, *, code: str, message: str, lease_token: str | None = None) -> None:
        """Throw an error."""
        await self._call("throw", lambda: self._model.throw(job_key, code, message))

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        """Change a timeout."""
        await self._call("extend", lambda: self._model.extend(job_key, timeout_ms))

    async def release(self, job_key: int, *, retries: int, incident_key: int | None = None) -> None:
        """No person works on the engine here."""
        raise NotImplementedError

    async def resolve_incident(self, incident_key: int) -> None:
        """No person works on the engine here."""
        raise NotImplementedError

    async def set_flags(self, instance_key: int, flags: Variables) -> None:
        """No person works on the engine here."""
        raise NotImplementedError

    async def incidents(self, instance_keys: Sequence[int] = ()) -> list[EngineIncident]:
        """An engine of this version has no search."""
        raise NotOffered("this version has no search")

    async def waits(self, instance_key: int) -> list[ActiveElement]:
        """An engine of this version has no search."""
        raise NotOffered("this version has no search")

    async def publish(self, signal: Signal) -> None:
        """Publish a message."""
        await self._call("publish", lambda: self._model.publish(signal))

    async def correlate(
        self, name: str, correlation_key: str, variables: Variables, *, tenant_id: str | None = None
    ) -> int | None:
        """Messages are published here."""
        raise NotImplementedError

    async def cancel(self, instance_key: int) -> None:
        """Cancel an instance."""
        await self._call("cancel", lambda: self._model.cancel(instance_key))

    async def alive(self, instance_key: int) -> bool:
        """Whether an instance is there."""
        answer: bool = await self._call("alive", lambda: self._model.alive(instance_key))
        return answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return
