"""Worker processes that a test starts, kills, freezes and asks to leave, each by its own pid."""

import asyncio
import http.client
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.children import Child, spawn
from tests.support.http import ask
from tests.support.ports import LOOPBACK, free_ports

WORKER = (str(Path(sys.executable).with_name("verbworker")), "worker", "--app", "tests.chaos.verbs:registry")
NAIVE = (sys.executable, "-m", "tests.chaos.naive")
_NO_ANSWER = (OSError, http.client.HTTPException)
_SIGNS = (" bug", " unexpected error", "never awaited", "never retrieved")
_LOOK = 0.1
_TIMEOUT = 60.0
_WORKING = " working health="
"""What a worker logs when it begins to take jobs, as text."""


@dataclass(frozen=True, slots=True)
class Death:
    """A worker that ended although nobody asked it to."""

    name: str
    code: int
    last_words: str
    was_working: bool

    @property
    def is_refused_start(self) -> bool:
        """Whether it only could not begin: the database was cut off from it before it took its first job."""
        return self.code == 2 and not self.was_working


@dataclass(slots=True)
class WorkerPlace:
    """One place of the group: the process that holds it now, and what is being done to it."""

    name: str
    log: Path
    port: int
    child: Child | None = None
    is_spared: bool = False
    boots: int = 0
    read_from: int = 0
    counters: dict[tuple[int, str], float] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        """The pid of the process, which must be running."""
        assert self.child is not None, f"{self.name} is not running"
        return self.child.pid

    def is_running(self) -> bool:
        """Whether there is a process that has not ended."""
        return self.child is not None and self.child.code() is None


class WorkerGroup:
    """Some workers of one kind. Whoever ends without being asked is remembered, and replaced while supervised."""

    def __init__(
        self, size: int, environment: Mapping[str, str], directory: Path, command: Sequence[str] = WORKER
    ) -> None:
        self._command = list(command)
        self._environment = {**_outside(), **environment}
        self.places = [
            WorkerPlace(f"worker-{number}", directory / f"worker-{number}.log", port)
            for number, port in enumerate(free_ports(size), 1)
        ]
        self.deaths: list[Death] = []

    def start(self, place: WorkerPlace, **environment: str) -> None:
        """Start the process of one place, with a few settings of its own."""
        place.read_from = len(_read(place.log))
        own = {"VERBWORKER_WORKER_NAME": place.name, "VERBWORKER_HTTP_PORT": str(place.port)}
        place.child = spawn(
            self._command,
            log=place.log,
            environment={**self._environment, **own, **environment},
            directory=Path.cwd(),
        )
        place.boots += 1

    def start_all(self) -> None:
        """Start every place."""
        for place in self.places:
            self.start(place)

    def end_all(self) -> None:
        """End every process that is left, whatever state it is in."""
        for place in self.places:
            if place.child is not None:
                place.child.end(signal.SIGKILL)
                place.child = None

    def kill(self, place: WorkerPlace) -> int:
        """kill -9, and the pid it hit."""
        pid = place.pid
        assert place.child is not None
        place.child.end(signal.SIGKILL)
        place.child = None
        return pid

    async def freeze(self, place: WorkerPlace, seconds: float) -> None:
        """SIGSTOP for that long, then SIGCONT. Nothing else is done to this place in between."""
        place.is_spared = True
        try:
            os.kill(place.pid, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            if place.is_running():
                os.kill(place.pid, signal.SIGCONT)
        finally:
            place.is_spared = False

    async def dismiss(self, place: WorkerPlace, timeout: float = _TIMEOUT) -> int:
        """SIGTERM, and the exit code once the worker has drained."""
        assert place.child is not None
        child, place.child = place.child, None
        return await asyncio.to_thread(child.end, signal.SIGTERM, timeout)

    async def died(self, place: WorkerPlace) -> int:
        """Wait until a worker has ended by itself and return its exit code."""
        assert place.child is not None
        child, place.child = place.child, None
        return await asyncio.to_thread(child.wait, _TIMEOUT)

    async def ready(self, place: WorkerPlace) -> None:
        """Return when a worker takes jobs."""
        async with asyncio.timeout(_TIMEOUT):
            while await self.probe(place, "/ready") != 200:
                assert place.is_running(), f"{place.name} ended: {last_words(place.log)}"
                await asyncio.sleep(_LOOK)

    async def all_ready(self) -> None:
        """Return when every worker takes jobs."""
        for place in self.places:
            await self.ready(place)

    async def probe(self, place: WorkerPlace, path: str) -> int | None:
        """What a worker answers to a probe: a status, or None when it does not answer."""
        try:
            status, _ = await asyncio.to_thread(ask, "GET", f"{LOOPBACK}:{place.port}", path, None, 5.0)
        except _NO_ANSWER:
            return None
        return status

    async def supervise(self) -> None:
        """Replace who died, until cancelled. A place that a test emptied on purpose stays empty."""
        while True:
            for place in self.places:
                code = None if place.child is None else place.child.code()
                if place.child is not None and code is not None:
                    was_working = _WORKING in _read(place.log)[place.read_from :]
                    self.deaths.append(Death(place.name, code, last_words(place.log), was_working))
                    place.child.end()
                    self.start(place)
            await asyncio.sleep(_LOOK)

    async def count(self) -> None:
        """Read everybody's metrics every second until cancelled; a boot's last reading outlives it."""
        while True:
            for place in self.places:
                await self.read_metrics(place)
            await asyncio.sleep(1.0)

    async def read_metrics(self, place: WorkerPlace) -> dict[str, float]:
        """One worker's metrics as they are now, by name with labels; empty while it does not answer."""
        if place.is_spared or not place.is_running():
            return {}
        try:
            _, text = await asyncio.to_thread(ask, "GET", f"{LOOPBACK}:{place.port}", "/metrics", None, 2.0)
        except _NO_ANSWER:
            return {}
        found = dict(_samples(str(text)))
        place.counters.update({(place.boots, name): value for name, value in found.items()})
        return found

    def worked(self) -> int:
        """How many boots came as far as taking jobs."""
        return sum(_read(place.log).count(_WORKING) for place in self.places)

    def total(self, prefix: str) -> float:
        """The sum of a counter over every boot, as far as it was read."""
        return sum(
            value for place in self.places for (_, name), value in place.counters.items() if name.startswith(prefix)
        )

    def bugs(self) -> list[str]:
        """What the workers themselves called a bug, and what Python found forgotten in them."""
        return [
            line
            for place in self.places
            for line in _read(place.log).splitlines()
            if any(sign in line for sign in _SIGNS)
        ]


def last_words(log: Path, lines: int = 15) -> str:
    """The end of a log."""
    return "\n".join(_read(log).splitlines()[-lines:])


def _read(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""


def _samples(text: str) -> list[tuple[str, float]]:
    rows = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, float(value)) for name, _, value in rows]


def _outside() -> dict[str, str]:
    """The caller's environment without anything that would reach a worker by accident."""
    ours = ("VERBWORKER_", "CHAOS_", "ZEEBE_", "CAMUNDA_", "PG")
    return {name: text for name, text in os.environ.items() if not name.startswith(ours)}
