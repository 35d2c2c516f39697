"""Cursors: the text that names the start of the next page of a list."""

from datetime import UTC, datetime
from uuid import UUID

from verbworker.errors import InvocationInvalid
from verbworker.stores.cases.page_key import PageKey


def format_cursor(key: PageKey) -> str:
    """Return the cursor of the page that starts after a row."""
    # In UTC and with a Z: a plus sign would have to be escaped in an address.
    return f"{key.at.astimezone(UTC).isoformat().replace('+00:00', 'Z')}~{key.row_id}"


def parse_cursor(text: str | None) -> PageKey | None:
    """Return the row before a page, or None for the first page; raises `InvocationInvalid`."""
    if text is None:
        return None
    at, _, row = text.partition("~")
    try:
        moment, row_id = datetime.fromisoformat(at), UUID(row)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvocationInvalid("the cursor is invalid: pass the one that the page before returned")
    return PageKey(moment, row_id)


def next_cursor(keys: list[PageKey], limit: int) -> str | None:
    """Return the cursor behind the first `limit` rows; None if there are no more rows."""
    return format_cursor(keys[limit - 1]) if len(keys) > limit else None
