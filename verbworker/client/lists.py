"""What a list is asked for: its limit, its status, and the cursor where its next page starts."""

from datetime import UTC, datetime
from uuid import UUID

from verbworker.errors import InvocationInvalid
from verbworker.runbook.event import Status
from verbworker.stores.cases.overview import Key

MOST_ENTRIES = 11_000
"""The most entries, gates or incidents that one call returns."""


def read_status(value: Status | str) -> Status:
    """Return a status by its name; raises `InvocationInvalid`."""
    try:
        return Status(value)
    except ValueError:
        raise InvocationInvalid(f"there is no status {value[:60]!a}; there are {', '.join(Status)}") from None


def require_limit(limit: int) -> None:
    """Raise `InvocationInvalid` unless a list may have this many rows."""
    if not 1 <= limit <= MOST_ENTRIES:
        raise InvocationInvalid(f"the limit must be from 1 to {MOST_ENTRIES}")


def format_cursor(key: Key) -> str:
    """Return the cursor of the page behind an entry."""
    # In UTC and with a Z: a plus sign would have to be escaped in an address.
    return f"{key.created_at.astimezone(UTC).isoformat().replace('+00:00', 'Z')}~{key.entry_id}"


def parse_cursor(text: str) -> Key:
    """Return the entry that a cursor stands for; raises `InvocationInvalid`."""
    at, _, entry = text.partition("~")
    try:
        moment, entry_id = datetime.fromisoformat(at), UUID(entry)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvocationInvalid("the cursor is invalid: pass the one that the page before returned")
    return Key(moment, entry_id)
