"""Supervised processes of the product: started again when the nemesis ended them, counted when they end themselves."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.web import request
from tests.support.children import Child, spawn

_TICK = 0.1
# A worker gives running verbs its grace; what takes this much longer does not end at all.
_TERM_TIMEOUT = 40.0


@dataclass(frozen=True, slots=True)
class Death:
    """A process that ended by itself, or did not end when it was asked to."""

    name: str
    at: float
    reason: str
    last_words: str


class NeverReady(Exception):
    """A process ended, or ran out of time, before it was ready for the first time."""


class Service:
    """One supervised process."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        health: str,
        may_refuse: Callable[[], bool],
    ) -> None:
        self.name = name
        self._command = command
        self._environment = environment
        self._directory = directory
        self.log = directory / f"{name}.log"
        self._health = health
        self._may_refuse = may_refuse
        self._child: Child | None = None
        self._expected: str | None = None
        self._term_at = 0.0
        self._was_ready = False
        self.deaths: list[Death] = []
        self.refused_starts = 0

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return None if self._child is None else self._child.pid

    def start(self) -> None:
        """Start the process."""
        self._expected, self._was_ready = None, False
        self._child = spawn(self._command, log=self.log, environment=self._environment, directory=self._directory)

    def signal(self, number: int) -> None:
        """Send a signal of the nemesis; a process that it ends is started again."""
        if self._child is None or self._child.code() is not None:
            return
        if number == signal.SIGKILL:
            self._expected = "kill"
        if number == signal.SIGTERM and self._expected == "term":
            self._expected = "kill"  # the help promises that a second one ends a worker at once
        if number == signal.SIGTERM and self._expected is None:
            self._expected, self._term_at = "term", time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child.pid, number)

    async def supervise(self) -> None:
        """Keep the process running until cancelled."""
        while True:
            await asyncio.sleep(_TICK)
            if self._child is None:
                continue
            code = self._child.code()
            if code is None:
                await self._look()
                continue
            self._judge(code)
            self._child.end()
            self.start()

    async def ready(self, timeout: float = 60.0) -> None:
        """Return when the process says that it is ready; raise with its last words when it ends or is too late."""
        try:
            async with asyncio.timeout(timeout):
                while not self._was_ready:
                    await asyncio.sleep(_TICK)
                    await self._look()
                    if self._child is not None and (code := self._child.code()) is not None:
                        raise NeverReady(f"{self.name} ended with {code} before it was ready: {self._last_words()}")
        except TimeoutError as error:
            raise NeverReady(f"{self.name} was not ready within {timeout:.0f} s: {self._last_words()}") from error

    def end_in_order(self) -> None:
        """End the process by SIGTERM at rest, and note it when it does not obey."""
        code = self.stop(_TERM_TIMEOUT)
        if code not in (0, None):
            self._die(f"ended with {code} after the last SIGTERM")

    def stop(self, timeout: float = 20.0) -> int | None:
        """End the process in order, for good."""
        child, self._child = self._child, None
        if child is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGCONT)
        return child.end(signal.SIGTERM, timeout)

    async def _look(self) -> None:
        if self._expected == "term" and time.monotonic() - self._term_at > _TERM_TIMEOUT:
            self._die(f"did not end within {_TERM_TIMEOUT:.0f} s of SIGTERM")
            self.signal(signal.SIGKILL)
        if not self._was_ready:
            with contextlib.suppress(OSError, TimeoutError, ValueError):
                status, _ = await request("GET", self._health, "/ready", timeout=1.0)
                self._was_ready = status == 200

    def _judge(self, code: int) -> None:
        if self._expected == "kill" or (self._expected == "term" and code == 0):
            return
        if self._expected == "term" and code == -signal.SIGTERM and not self._was_ready:
            return  # it was still loading, so nobody listened to the signal yet, and nothing had begun
        if not self._was_ready and self._may_refuse():
            # A worker may refuse to start while what it needs is away; whoever supervises it starts it again.
            self.refused_starts += 1
            return
        self._die(f"ended with {code}" + (" after SIGTERM" if self._expected == "term" else ""))

    def _die(self, reason: str) -> None:
        self.deaths.append(Death(self.name, time.time(), reason, self._last_words()))

    def _last_words(self) -> str:
        return self.log.read_bytes()[-4000:].decode(errors="replace") if self.log.exists() else ""
