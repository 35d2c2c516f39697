"""A thread that notices when the event loop is blocked, and disconnects the engine until it runs again.

While the loop is blocked nothing reads the streams, and every job that the engine pushes is locked for a worker that
does not work. Closing the connection leaves those jobs to other workers. When the loop runs again its feeds reconnect;
the leases decide about jobs it had started, as after any pause. A suspended process is another matter: when it runs
again its loop reads what was pushed meanwhile, so the connection is kept.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

from verbworker import metrics

_log = logging.getLogger(__name__)

_LOOKS_PER_LIMIT = 4  # a standstill is noticed at most a quarter too late
_JOIN_WITHIN = 1.0  # the thread holds nothing; the process may end without it


class Watchdog:
    """Watches the loop of the thread that enters it. `tick` reports that the loop runs."""

    def __init__(self, interrupt: Callable[[], int] | None, *, limit_s: float) -> None:
        self._interrupt = interrupt
        self._limit_s = limit_s
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._watched = 0
        self._ticked_at = 0.0
        self._is_stalled = False

    def tick(self) -> None:
        """Report that the event loop runs."""
        self._ticked_at = time.monotonic()

    def __enter__(self) -> Self:
        """Start watching."""
        self._watched = threading.get_ident()
        self.tick()
        self._ended.clear()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_JOIN_WITHIN)

    def _watch(self) -> None:
        resumed_at = looked_at = time.monotonic()
        while not self._ended.wait(self._limit_s / _LOOKS_PER_LIMIT):
            now = time.monotonic()
            if now - looked_at > self._limit_s and not self._is_stalled:
                resumed_at = now  # this thread was late too, so the whole process was suspended
            looked_at = now
            try:
                self._look(now - max(self._ticked_at, resumed_at))
            except Exception:  # a thread that ends here would no longer watch anything
                _log.exception("the watchdog failed with an unexpected error; it continues")

    def _look(self, age: float) -> None:
        if age < self._limit_s:
            if self._is_stalled:
                _log.warning("the event loop runs again")
            self._is_stalled = False
        elif not self._is_stalled:
            self._is_stalled = True
            metrics.LOOP_STALLS.inc()
            place = _place(sys._current_frames().get(self._watched))
            closed = 0 if self._interrupt is None else self._interrupt()
            _log.error(
                "the event loop is blocked; its connections to the engine are closed",
                extra={"seconds": round(age, 1), "at": place, "connections": closed},
            )


def _place(frame: FrameType | None) -> str:
    """Return where a thread is: the innermost line of Python."""
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
