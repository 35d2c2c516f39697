"""Quotas of tenants: what exceeds one is refused and leaves nothing behind, and repetitions are accepted."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.support.case_setup import case_registry
from tests.support.frames import ENGINE
from tests.support.mail import make_message, make_request
from tests.support.start_router import asking
from verbworker.contract.quota import Quota, Quotas
from verbworker.errors import QuotaExceeded
from verbworker.runbook.event import Entry
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.stores.messages.inbox import Inbox, Receipt
from verbworker.stores.tenants.tenant_use import TenantUse
from verbworker.work.starts.router import Router

HOUR = timedelta(hours=1)
CONNECTIONS = 32


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=CONNECTIONS) as opened:
        # Minutes are the database's own. One that ends within a test would begin to count anew.
        seconds = await number(opened, "SELECT extract(second FROM clock_timestamp())::integer")
        if seconds > 45:
            await asyncio.sleep(61 - seconds)
        yield opened


class Desk:
    """What a caller and a sender reach, under quotas."""

    def __init__(self, database: Database, **limits: int) -> None:
        self.database = database
        quotas = Quotas(Quota(**limits), {"unlimited": Quota(), "small": Quota(open_cases=1)})
        nothing: Any = None
        dispatches = Dispatches(database, engine_id=ENGINE, owner=uuid4())
        registry = case_registry("backlog", "backlog-letter")
        self._router = Router(registry, database, dispatches, nothing, engine_id=ENGINE, quotas=quotas)
        self._inbox = Inbox(database, engine_id=ENGINE, owner=uuid4(), quotas=quotas)

    async def start(self, key: str | None = None, *, tenant: str = "tests") -> Entry:
        return await self._router.invoke("backlog.case", {"name": "one"}, caller=asking(key, tenant=tenant))

    async def send(self, message_id: str, *, tenant: str = "tests", pages: str = "") -> Receipt:
        message = make_message(message_id=message_id, tenant_id=tenant, payload={"pages": pages})
        return await self._inbox.receive(message, sent_by="tests", ttl=HOUR)


async def number(database: Database, words: str) -> int:
    row = await database.fetchrow(words)
    assert row is not None
    return int(row[0])


async def rows(database: Database) -> list[int]:
    tables = ("runbook_entry", "workflow_instance", "dispatch", "inbox_message", "tenant_use")
    return [await number(database, f"SELECT count(*) FROM verbworker.{table}") for table in tables]


async def refusal(work: Any) -> tuple[str, int, str]:
    with pytest.raises(QuotaExceeded) as refused:
        await work
    return refused.value.quota, refused.value.retry_after, str(refused.value)


async def test_a_start_beyond_the_quota_of_open_cases_is_refused_and_leaves_nothing(database: Database) -> None:
    desk = Desk(database, open_cases=2)
    for _ in range(2):
        await desk.start()
    before = await rows(database)

    name, seconds, words = await refusal(desk.start())

    assert (name, seconds) == ("open_cases", 30)
    assert words == "the tenant tests has 2 open cases, and its quota open_cases allows no more; end some of them"
    assert await rows(database) == before


async def test_a_case_that_ends_makes_room_for_another(database: Database) -> None:
    desk, runbook = Desk(database, open_cases=1), Runbook(database)
    first = await desk.start()
    await refusal(desk.start())
    async with database.transaction() as connection:
        await runbook.end_in(connection, first.entry_id, outcome=b"{}", detail={"result": "ok"})

    assert (await desk.start()).entry_id != first.entry_id


async def test_starts_are_counted_by_the_minute_and_the_refusal_says_how_long_to_wait(database: Database) -> None:
    desk = Desk(database, starts_per_minute=3)
    for _ in range(3):
        await desk.start()

    name, seconds, words = await refusal(desk.start())
    await database.execute("UPDATE verbworker.tenant_use SET minute = minute - interval '1 minute'")
    await desk.start()

    assert name == "starts_per_minute"
    assert 1 <= seconds <= 60
    assert words == (
        "the tenant tests has started 3 verbs within this minute, and its quota starts_per_minute allows no more;"
        f" try again in {seconds} s"
    )


async def test_a_repeated_request_is_accepted_whatever_is_used_up(database: Database) -> None:
    desk = Desk(database, open_cases=1, starts_per_minute=1, messages_per_minute=1, waiting_messages=1)
    entry, receipt = await desk.start("order-1"), await desk.send("m-1")

    again, heard = await desk.start("order-1"), await desk.send("m-1")

    assert (again.entry_id, receipt.is_new, heard.is_new) == (entry.entry_id, True, False)
    assert await number(database, "SELECT sum(requests) FROM verbworker.tenant_use") == 2


async def test_each_tenant_has_its_own_count_and_may_have_its_own_quota(database: Database) -> None:
    desk = Desk(database, open_cases=2)
    for tenant, cases in (("tests", 2), ("other", 2), ("small", 1), ("unlimited", 4)):
        for _ in range(cases):
            await desk.start(tenant=tenant)

    refused = [(await refusal(desk.start(tenant=tenant)))[2].split(",")[0] for tenant in ("tests", "other", "small")]
    await desk.start(tenant="unlimited")

    assert refused == [
        "the tenant tests has 2 open cases",
        "the tenant other has 2 open cases",
        "the tenant small has 1 open cases",
    ]


@pytest.mark.parametrize(
    ("limits", "quota", "words"),
    [
        ({"messages_per_minute": 2}, "messages_per_minute", "has sent 2 messages within this minute"),
        ({"waiting_messages": 2}, "waiting_messages", "has 2 messages that no case has taken yet"),
        (
            {"message_bytes_per_minute": 2_000},
            "message_bytes_per_minute",
            "has sent messages of 2,000 bytes within this minute",
        ),
    ],
)
async def test_a_message_beyond_a_quota_is_refused_and_leaves_nothing(
    database: Database, limits: dict[str, int], quota: str, words: str
) -> None:
    desk = Desk(database, **limits)
    for name in ("m-1", "m-2"):
        await desk.send(name, pages="x" * 1_000)
    before = await rows(database)

    refused, _, said = await refusal(desk.send("m-3"))

    assert refused == quota
    assert words in said
    assert await rows(database) == before


async def test_nothing_is_counted_for_a_tenant_without_quotas(database: Database) -> None:
    desk = Desk(database, open_cases=5)
    await desk.start(tenant="unlimited")
    await desk.send("m-1", tenant="unlimited")

    assert await number(database, "SELECT count(*) FROM verbworker.tenant_use") == 0


@pytest.mark.parametrize("limits", [{"starts_per_minute": 40}, {"open_cases": 40}])
async def test_starts_at_the_same_time_pass_beyond_a_quota_by_no_more_than_are_under_way(
    database: Database, limits: dict[str, int]
) -> None:
    desk = Desk(database, **limits)

    async def caller() -> int:
        done = 0
        for _ in range(10):
            try:
                await desk.start()
            except QuotaExceeded:
                continue
            done += 1
        return done

    accepted = sum(await asyncio.gather(*(caller() for _ in range(CONNECTIONS))))

    assert 40 <= accepted < 40 + CONNECTIONS
    assert await number(database, "SELECT count(*) FROM verbworker.runbook_entry") == accepted
    if "starts_per_minute" in limits:
        assert await number(database, "SELECT sum(requests) FROM verbworker.tenant_use") == accepted


async def test_a_start_does_not_wait_for_another_that_was_counted_and_is_not_committed(database: Database) -> None:
    quota, runbook = Quota(starts_per_minute=100), Runbook(database)

    async def other() -> bool:
        async with database.transaction() as second:
            return await runbook.open_in(second, make_request(uuid4(), "tests"), quota)

    async with database.transaction() as first:
        await runbook.open_in(first, make_request(uuid4(), "tests"), quota)

        assert await asyncio.wait_for(asyncio.create_task(other()), 10)


async def test_shares_name_the_fullest_first(database: Database) -> None:
    desk = Desk(database, open_cases=4, messages_per_minute=10)
    for tenant in ("tests", "tests", "tests", "other"):
        await desk.start(tenant=tenant)
    await desk.send("m-1")

    found = await TenantUse(database).shares(Quotas(Quota(open_cases=4, messages_per_minute=10)))

    assert [(one.tenant_id, one.quota, one.used, one.limit, one.share) for one in found] == [
        ("tests", "open_cases", 3, 4, 0.75),
        ("other", "open_cases", 1, 4, 0.25),
        ("tests", "messages_per_minute", 1, 10, 0.1),
        ("tests", "message_bytes_per_minute", 12, None, 0.0),
        ("tests", "waiting_messages", 1, None, 0.0),
    ]


async def test_minutes_that_are_over_are_forgotten(database: Database) -> None:
    desk = Desk(database, starts_per_minute=5)
    await desk.start()
    await database.execute("UPDATE verbworker.tenant_use SET minute = minute - interval '2 hours'")
    await desk.start()

    await TenantUse(database).forget()

    assert await number(database, "SELECT count(*) FROM verbworker.tenant_use") == 1
