"""Pages of gates, incidents and stuck entries: each row once, also where rows have the same moment."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.embedded_service import TENANT
from tests.support.entries import StoredEntry
from tests.support.frames import INCIDENT, claimed, make_delivery, make_job, working
from verbworker.app.settings import Settings
from verbworker.client.client import Client
from verbworker.errors import InvocationInvalid
from verbworker.runbook.event import Kind, Wait
from verbworker.stores.database import Database

SAME_MOMENT = "UPDATE verbworker.parked_token SET opened_at = date_trunc('hour', clock_timestamp()) - interval '1 hour'"
LISTS = ("gates", "incidents")


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=2) as database:
        yield database


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[Client]:
    settings = Settings.model_validate({"dsn": dsn, "engine": "embedded", "tenant": TENANT})
    async with Client(settings, by="ann") as client:
        yield client


async def put_waits(database: Database, kind: Wait, count: int, **changes: Any) -> None:
    """Entries that wait, all since the same moment."""
    for number in range(1, count + 1):
        book = await StoredEntry.open(database, tenant_id=TENANT)
        await book.park(book.token(number, kind, tenant_id=TENANT, job_key=number, **changes))
    await database.execute(SAME_MOMENT)


async def read_pages(ask: Callable[[str | None], Awaitable[Any]], name: str) -> list[list[Any]]:
    found: list[list[Any]] = []
    cursor: str | None = None
    while not found or cursor is not None:
        page = await ask(cursor)
        found.append(list(getattr(page, name)))
        cursor = page.next
    return found


async def test_every_gate_is_on_one_page(database: Database, client: Client) -> None:
    await put_waits(database, Wait.HUMAN_GATE, 7, gate="review")

    pages = await read_pages(lambda cursor: client.gates(gate="review", limit=3, cursor=cursor), "gates")

    assert [len(page) for page in pages] == [3, 3, 1]
    assert len({gate.token_id for page in pages for gate in page}) == 7
    whole = await client.gates(limit=7)
    assert (list(whole.gates), whole.next) == ([gate for page in pages for gate in page], None)


async def test_a_gate_that_closes_meanwhile_moves_no_other_off_a_page(database: Database, client: Client) -> None:
    await put_waits(database, Wait.HUMAN_GATE, 5, gate="review")

    first = await client.gates(limit=2)
    await client.decide(first.gates[0].token_id, "yes")
    rest = await client.gates(limit=5, cursor=first.next)

    assert len({gate.token_id for gate in (*first.gates, *rest.gates)}) == 5


async def test_every_incident_is_on_one_page_also_held_jobs_without_an_entry(
    database: Database, client: Client
) -> None:
    await put_waits(database, Wait.INCIDENT, 3)
    async with working(database) as frames:
        for number in range(11, 15):
            await frames.pop_incident(await claimed(frames, make_delivery(make_job(number))), INCIDENT)
    await database.execute(
        "UPDATE verbworker.job_frame SET popped_at = (SELECT max(opened_at) FROM verbworker.parked_token)"
    )

    pages = await read_pages(lambda cursor: client.incidents(without_entry=True, limit=2, cursor=cursor), "incidents")

    assert [len(page) for page in pages] == [2, 2, 2, 1]
    assert {one.job_key for page in pages for one in page} == {1, 2, 3, 11, 12, 13, 14}


async def test_entries_without_progress_have_pages_too(database: Database, client: Client) -> None:
    await put_waits(database, Wait.INCIDENT, 5)
    longer = timedelta(seconds=1)

    pages = await read_pages(lambda cursor: client.entries(stuck_for=longer, limit=2, cursor=cursor), "entries")

    assert [len(page) for page in pages] == [2, 2, 1]
    assert len({entry.entry_id for page in pages for entry in page}) == 5


async def test_the_history_is_whole_however_many_events_there_are(
    database: Database, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verbworker.client.entry_handle._BATCH", 2)
    asked: list[int] = []
    book = await StoredEntry.open(database, tenant_id=TENANT)
    for number in range(5):
        detail = {"verb": "a", "element": f"e-{number}"}
        await book.runbook.append(book.entry_id, Kind.STEP_COMPLETED, once=f"step:{number}", detail=detail)
    entry = await client.entry(book.entry_id)

    async def count(*args: Any, limit: int, **more: Any) -> Any:
        asked.append(limit)
        return await book.runbook.events(*args, limit=limit, **more)

    monkeypatch.setattr(entry._runbook, "events", count)

    assert [event.seq for event in await entry.history()] == [1, 2, 3, 4, 5]
    assert asked == [2, 2, 2]
    assert [event.seq for event in await entry.history(after=1, limit=3)] == [2, 3, 4]


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(
    "cursor", ["", "x", "2026-01-01~x", "2026-01-01T00:00:00~7d444840-9dc0-11d1-b245-5ffdce74fad2"]
)
async def test_a_cursor_that_no_page_returned_is_refused(client: Client, name: str, cursor: str) -> None:
    with pytest.raises(InvocationInvalid, match="the cursor is invalid"):
        await getattr(client, name)(cursor=cursor)
