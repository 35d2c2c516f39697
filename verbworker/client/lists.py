"""What a list may be asked for, and the list of entries without progress."""

from datetime import timedelta

from verbworker.client.cursors import next_cursor, parse_cursor
from verbworker.client.entry_view import EntryView
from verbworker.client.records import EntryPage, StuckEntry
from verbworker.client.resources import Resources
from verbworker.errors import InvocationInvalid
from verbworker.runbook.event import Status
from verbworker.stores.access.tenancy import EVERY_TENANT
from verbworker.stores.cases.page_key import PageKey

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


def require_tenant(tenant: str) -> str:
    """Return the name of a tenant; raises `InvocationInvalid` for `*`, which means all tenants to the database."""
    if tenant == EVERY_TENANT:
        raise InvocationInvalid(f"no tenant is called {EVERY_TENANT}: name one tenant")
    return tenant


async def list_stuck(
    resources: Resources, tenant: str, *, longer_than: timedelta, limit: int, cursor: str | None
) -> EntryPage:
    """Return a page of the entries without progress for so long, the longest first, each with its reason."""
    view, after = EntryView(resources.database), parse_cursor(cursor)
    found = await resources.runbook.stuck(tenant, longer_than=longer_than, after=after, limit=limit + 1)
    rows = [StuckEntry.of_silence(await view.read(one.entry), one.since, one.reason) for one in found[:limit]]
    keys = [PageKey(one.since, one.entry.entry_id) for one in found]
    return EntryPage(entries=tuple(rows), next=next_cursor(keys, limit))
