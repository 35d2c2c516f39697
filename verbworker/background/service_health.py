"""Health of a background service: its last success, its last error, and one log line a minute about an outage."""

import asyncio
import logging
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from verbworker import metrics
from verbworker.errors import EndedByBug, leaves
from verbworker.retrying import is_collision, is_outage

_log = logging.getLogger(__name__)

_SAY_EVERY = 60.0  # an outage of hours is one line a minute
# One or two collisions of transactions are not worth a log line. Three in a row are.
_COLLISIONS_WORTH_A_LINE = 3


@dataclass(frozen=True, slots=True)
class Limited:
    """What a process does without: worth telling, and no reason to refuse traffic."""

    words: str

    def __str__(self) -> str:
        return self.words


class ServiceHealth:
    """The state of one service. Times are event loop times."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures = 0
        self.last_error: str | None = None
        self.succeeded_at: float | None = None
        self.failing_since: float | None = None
        self.bug: EndedByBug | None = None
        self.limits: dict[str, str] = {}
        """What the service does without, by the name of the part."""
        self._logged_at: float | None = None
        self._is_logged = False
        self._items_logged_at: dict[str, float] = {}

    def note_success(self) -> None:
        """Note that a batch was worked, or that nothing was due."""
        self.succeeded_at = asyncio.get_running_loop().time()
        self.bug = None  # a service that runs again after a bug
        if self.failures:
            self._recover(self.succeeded_at)

    def note_outage(self, error: BaseException) -> None:
        """Note an outage; log it immediately, then as a summary once a minute."""
        now = asyncio.get_running_loop().time()
        first = next(leaves(error))
        kind = type(first).__name__
        metrics.SERVICE_FAILURES.labels(self.name, kind).inc()
        self.failures += 1
        self.last_error = kind
        if self.failing_since is None:
            self.failing_since = now
        if is_collision(error) and self.failures < _COLLISIONS_WORTH_A_LINE:
            return
        if self._logged_at is None or now - self._logged_at >= _SAY_EVERY:
            self._logged_at = now
            self._is_logged = True
            fields = {"service": self.name, "error": kind, "reason": str(first), "failures": self.failures}
            _log.warning("service is waiting", extra={**fields, "seconds": round(now - self.failing_since, 1)})

    def _recover(self, now: float) -> None:
        if self._is_logged and self.failing_since is not None:
            fields = {"service": self.name, "failures": self.failures, "seconds": round(now - self.failing_since, 1)}
            _log.info("service is back", extra=fields)
        self._is_logged = False
        self.failures = 0
        self.failing_since = None

    def note_refusal(self, error: BaseException, words: str = "item refused", **fields: object) -> None:
        """Note that Postgres or the engine refused one item; the other items and the service are healthy.

        Refusals for the same kind of reason are logged once a minute, however many items there are.
        """
        first = next(leaves(error))
        kind = type(first).__name__
        metrics.SERVICE_FAILURES.labels(self.name, kind).inc()
        self.last_error = kind
        if self._is_time_to_say(kind):
            _log.warning(words, extra={"service": self.name, "error": kind, "reason": str(first), **fields})

    def note_skip(self, error: BaseException) -> None:
        """Note a bug in one item of a batch; the item stays as it is."""
        self._note_bug("item skipped because of a bug", error)

    def note_end(self, error: BaseException) -> EndedByBug:
        """Note a bug that ends the service, and return the error to raise."""
        spot = self._note_bug("service ended by a bug", error)
        self.bug = EndedByBug(f"a bug ended the service {self.name}: {spot}; the log has its traceback")
        return self.bug

    def _note_bug(self, words: str, error: BaseException) -> str:
        """Log a bug, the same one at most once a minute, and return its type and place."""
        kind, file, line = place_of(error)
        metrics.SERVICE_FAILURES.labels(self.name, "bug").inc()
        self.last_error = kind
        spot = f"{kind} in {file}, line {line}"
        if self._is_time_to_say(spot):
            fields = {"service": self.name, "error": kind, "file": file, "line": line}
            _log.error(words, exc_info=error, extra=fields)
        return spot

    def _is_time_to_say(self, what: str) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._items_logged_at.get(what, float("-inf")) < _SAY_EVERY:
            return False
        self._items_logged_at[what] = now
        return True

    def describe_limits(self) -> Iterator[str]:
        """Yield what the service does without, in a few words each."""
        for part, words in self.limits.items():
            yield f"{self.name} of {part}: {words}" if part else f"{self.name}: {words}"

    def trouble(self, *, longer_than: float) -> str | None:
        """Return a short description if it ended by a bug or has been failing for `longer_than` seconds, else None."""
        if self.bug is not None:
            return f"{self.name}: ended by a bug"
        if self.failing_since is None:
            return None
        seconds = asyncio.get_running_loop().time() - self.failing_since
        return f"{self.name}: {self.last_error} for {seconds:.0f} s" if seconds > longer_than else None


def place_of(error: BaseException) -> tuple[str, str, int]:
    """Return the type, file and line of a bug; for a group, those of its first member that is a bug."""
    bug = next((leaf for leaf in leaves(error) if not is_outage(leaf)), error)
    frames = traceback.extract_tb(bug.__traceback__)
    if not frames:
        return type(bug).__name__, "?", 0
    return type(bug).__name__, Path(frames[-1].filename).name, frames[-1].lineno or 0
