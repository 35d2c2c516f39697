"""A clock that moves only on request, and the timers set on it."""

import heapq
from datetime import UTC, datetime, timedelta


class Clock:
    """The clock of an inline engine. Several engines may share one."""

    def __init__(self, start: datetime | None = None) -> None:
        self.now = start or datetime.now(UTC)

    @property
    def now_ms(self) -> int:
        """The time in milliseconds since 1970."""
        return int(self.now.timestamp() * 1000)

    def move(self, to: datetime) -> None:
        """Move the clock to `to`; it never goes back."""
        self.now = max(self.now, to)

    def later(self, milliseconds: float) -> datetime:
        """Return the time `milliseconds` from now."""
        return self.now + timedelta(milliseconds=milliseconds)


class Timers:
    """Waits ordered by due time; setting one again replaces its time."""

    def __init__(self) -> None:
        self._due: dict[int, tuple[datetime, int]] = {}
        self._heap: list[tuple[datetime, int]] = []

    def set(self, wait: int, due: datetime, instance: int) -> None:
        """Schedule a wait of this instance for `due`."""
        self._due[wait] = (due, instance)
        heapq.heappush(self._heap, (due, wait))

    def close(self, wait: int) -> None:
        """Remove a wait."""
        self._due.pop(wait, None)

    def next(self, until: datetime) -> tuple[datetime, int, int] | None:
        """Remove and return the first wait due by `until`: its time, its key and its instance."""
        while self._heap and self._heap[0][0] <= until:
            due, wait = heapq.heappop(self._heap)
            known = self._due.get(wait)
            if known is not None and known[0] == due:
                del self._due[wait]
                return due, wait, known[1]
        return None
