"""The ticker: what happens in a runbook is told line by line, each thing once, in the order of its entry."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.entries import StoredEntry
from verbworker.dev.event_log import EventLog
from verbworker.runbook.event import Kind
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


async def fire(stored: StoredEntry, name: str) -> None:
    await stored.runbook.append(stored.entry_id, Kind.TIMER_FIRED, once=name, detail={"name": name})


@pytest.mark.req("EVT-16")
async def test_each_thing_is_told_once_with_the_entrys_own_sentence(database: Database) -> None:
    ann, bob = (
        await StoredEntry.open(database, sentence="Ann's case"),
        await StoredEntry.open(database, sentence="Bob's case"),
    )
    event_log = EventLog(Runbook(database), "default")
    await fire(ann, "a day")
    await fire(bob, "a week")
    first = await event_log.news()
    await fire(ann, "a month")
    second = await event_log.news()

    assert [(line.sentence, line.words) for line in first] == [
        ("Ann's case", "Timer expired: a day"),
        ("Bob's case", "Timer expired: a week"),
    ]
    assert [line.words for line in second] == ["Timer expired: a month"]
    assert await event_log.news() == []


async def test_what_happened_before_is_skipped_and_what_happens_to_it_then_is_told(database: Database) -> None:
    stored = await StoredEntry.open(database)
    await fire(stored, "before")
    event_log = EventLog(Runbook(database), "default")
    await event_log.skip()
    await fire(stored, "after")

    assert [line.words for line in await event_log.news()] == ["Timer expired: after"]


async def test_a_thing_that_is_committed_late_is_told_all_the_same(database: Database) -> None:
    slow, quick = await StoredEntry.open(database), await StoredEntry.open(database)
    event_log = EventLog(Runbook(database), "default")
    async with database.transaction() as connection:
        await slow.runbook.append_in(connection, slow.entry_id, Kind.TIMER_FIRED, once="s", detail={"name": "slow"})
        await asyncio.create_task(fire(quick, "quick"))
        before = await asyncio.create_task(event_log.news())
    after = await event_log.news()

    assert [line.words for line in before + after] == ["Timer expired: quick", "Timer expired: slow"]


async def test_another_tenants_runbook_is_not_told(database: Database) -> None:
    stored = await StoredEntry.open(database, tenant_id="others")
    await fire(stored, "a day")

    assert await EventLog(Runbook(database), "default").news() == []
