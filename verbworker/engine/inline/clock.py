"""A clock that stands still until somebody moves it, and the timers that are set on it."""

import heapq
from datetime import UTC, datetime, timedelta


class Clock:
    """The time of an engine in memory. Several engines may share one."""

    def __init__(self, start: datetime | None = None) -> None:
        self.now = start or datetime.now(UTC)

    @property
    def now_ms(self) -> int:
        """The time in milliseconds since 1970."""
        return int(self.now.timestamp() * 1000)

    def move(self, to: datetime) -> None:
        """Make it `to`; time never goes back."""
        self.now = max(self.now, to)

    def later(self, milliseconds: float) -> datetime:
        """The time so long from now."""
        return self.now + timedelta(milliseconds=milliseconds)


class Timers:
    """Waits by the time they are due; one that is set again has its new time only."""

    def __init__(self) -> None:
        self._due: dict[int, tuple[datetime, int]] = {}
        self._heap: list[tuple[datetime, int]] = []

    def set(self, wait: int, due: datetime, instance: int) -> None:
        """Have a wait of this instance fire at `due`."""
        self._due[wait] = (due, instance)
        heapq.heappush(self._heap, (due, wait))

    def close(self, wait: int) -> None:
        """Forget a wait."""
        self._due.pop(wait, None)

    def next(self, until: datetime) -> tuple[datetime, int, int] | None:
        """The first wait that is due by then, which is taken: its time, its key and its instance."""
        while self._heap and self._heap[0][0] <= until:
            due, wait = heapq.heappop(self._heap)
            known = self._due.get(wait)
            if known is not None and known[0] == due:
                del self._due[wait]
                return due, wait, known[1]
        return None
