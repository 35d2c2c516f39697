"""Short numbers for the entries a session has shown, so that users need not type ids."""

from collections.abc import Sequence
from uuid import UUID

from verbworker.errors import NotFound

_MOST_DIGITS = 9  # more are no number of a session, and turning thousands of digits into one is slow


class ShortIds:
    """A number for each entry that was shown; it stays the same for the whole session."""

    def __init__(self) -> None:
        self._entries: list[UUID] = []
        self._numbers: dict[UUID, int] = {}

    def __call__(self, entry_id: UUID) -> int:
        """Return the number of an entry, a new one if it was not shown before."""
        if entry_id not in self._numbers:
            self._entries.append(entry_id)
            self._numbers[entry_id] = len(self._entries)
        return self._numbers[entry_id]

    @property
    def newest_first(self) -> Sequence[str]:
        """Every number so far, the newest first."""
        return [str(number) for number in range(len(self._entries), 0, -1)]

    def find(self, text: str) -> UUID:
        """Return the entry that a number or an id names; raises `NotFound`."""
        if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
            if 1 <= int(text) <= len(self._entries):
                return self._entries[int(text) - 1]
            raise NotFound(f"there is no entry {int(text)}; for the numbers: runbook or gates")
        try:
            return UUID(text)
        except ValueError:
            raise NotFound(f"{text[:60]!a} is neither a number nor an id; for the numbers: runbook or gates") from None
