"""Measures how long the event loop of a server process stands still: `install` runs inside of it, `read` beside it.

A tick is due every few milliseconds. What is late is measured in three ways, because a busy machine makes every clock
late: the wall, the processor time of the whole process meanwhile, and that of the loop's own thread.
"""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICK_S = 0.005
_WRITE_EVERY_S = 0.25
PLANT = "from pathlib import Path\nfrom tests.security.fuzz.loop_probe import install\ninstall(Path({path!r}))\n"
"""What an application's module says to measure the process that imports it."""


@dataclass(frozen=True, slots=True)
class Stalls:
    """The longest standstills since the last reset, in milliseconds, and how many ticks there were."""

    wall: float
    process: float
    thread: float
    ticks: int


def install(path: Path) -> None:
    """Measure every event loop that this process runs from now on, and write what was found to a file."""
    original: Callable[[Any], None] = asyncio.BaseEventLoop.run_forever

    def run_forever(loop: Any) -> None:
        loop.call_soon(_Probe(loop, path).tick)
        original(loop)

    asyncio.BaseEventLoop.run_forever = run_forever  # type: ignore[assignment,method-assign]  # the only way into a loop not ours


def read(path: Path, *, timeout: float = 10.0) -> Stalls:
    """Return what was measured since the last call, and begin anew."""
    reset = path.with_suffix(".reset")
    path.unlink(missing_ok=True)
    reset.touch()
    ends_at = time.monotonic() + timeout
    while not path.exists() or reset.exists():
        if time.monotonic() > ends_at:
            raise TimeoutError("the event loop does not answer")
        time.sleep(0.02)
    return Stalls(**json.loads(path.read_text()))


class _Probe:
    def __init__(self, loop: asyncio.AbstractEventLoop, path: Path) -> None:
        self._loop, self._path = loop, path
        self._last = self._now()
        self._worst, self._ticks, self._looked_at = [0.0, 0.0, 0.0], 0, 0.0

    def tick(self) -> None:
        now = self._now()
        for place, (at, before) in enumerate(zip(now, self._last, strict=True)):
            late = at - before - (TICK_S if place == 0 else 0.0)
            self._worst[place] = max(self._worst[place], late * 1000)
        self._ticks += 1
        if now[0] - self._looked_at > _WRITE_EVERY_S:
            self._looked_at = now[0]
            self._answer()
        self._last = self._now()
        self._loop.call_later(TICK_S, self.tick)

    def _now(self) -> tuple[float, float, float]:
        return time.monotonic(), time.process_time(), time.thread_time()

    def _answer(self) -> None:
        reset = self._path.with_suffix(".reset")
        if not reset.exists():
            return
        found = dict(zip(("wall", "process", "thread"), self._worst, strict=True))
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({**found, "ticks": self._ticks}))
        beside.replace(self._path)
        reset.unlink()
        self._worst, self._ticks = [0.0, 0.0, 0.0], 0
