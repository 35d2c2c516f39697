"""The overview: many entries at once, page by page, with what each waits for; figures that follow what happened."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.support.entries import StoredEntry
from tests.support.frames import (
    INCIDENT,
    claimed,
    make_delivery,
    make_instance,
    make_job,
    make_verdict,
    working,
)
from verbworker.runbook.event import Kind, Status, Wait
from verbworker.stores.cases.overview import Filter, Overview
from verbworker.stores.database import Database

EVERYTHING = Filter()


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as opened:
        yield opened


@pytest.fixture
def overview(database: Database) -> Overview:
    return Overview(database)


async def pages(overview: Overview, limit: int) -> list[list[UUID]]:
    found, before = [], None
    while page := await overview.page("default", EVERYTHING, before=before, limit=limit):
        found.append([listed.entry.entry_id for listed in page])
        before = page[-1].key
    return found


async def test_pages_follow_each_other_although_entries_came_at_the_same_moment_or_come_meanwhile(
    database: Database, overview: Overview
) -> None:
    made = [(await StoredEntry.open(database)).entry_id for _ in range(7)]
    await database.execute("UPDATE verbworker.runbook_entry SET created_at = date_trunc('hour', clock_timestamp())")
    first = await overview.page("default", EVERYTHING, limit=3)
    await StoredEntry.open(database)
    second = await overview.page("default", EVERYTHING, before=first[-1].key, limit=3)
    all_of_them = await pages(overview, 3)

    assert not {one.entry.entry_id for one in first} & {one.entry.entry_id for one in second}
    assert [len(page) for page in all_of_them] == [3, 3, 2]
    seen = {entry_id for page in all_of_them for entry_id in page}
    assert set(made) < seen
    assert len(seen) == 8


@pytest.mark.req("EVT-12", "EVT-13")
async def test_a_listed_entry_says_how_far_it_is_and_what_it_waits_for(database: Database, overview: Overview) -> None:
    stored = await StoredEntry.open(database)
    await stored.start()
    for number, detail in enumerate(({"verb": "a", "element": "x"}, {"verb": "a", "element": "x"}, {"verb": "b"})):
        await stored.runbook.append(stored.entry_id, Kind.STEP_COMPLETED, once=f"step:{number}", detail=detail)
    await stored.park(stored.token(1, Wait.HUMAN_GATE, reason="Awaiting reviewer", gate="review"))
    await stored.runbook.append(stored.entry_id, Kind.PARKED, once="parked", detail={"reason": "Awaiting reviewer"})
    (listed,) = await overview.page("default", EVERYTHING)
    counts = await overview.counts("default")

    assert (listed.entry.status, listed.progress.detailed) == (Status.PARKED, "3 of 3, awaiting reviewer")
    assert (counts[Status.PARKED], counts[Status.EXECUTING], counts[Status.COMPLETED]) == (1, 0, 0)
    assert await overview.count_events([stored.entry_id]) == {stored.entry_id: 5}
    assert await overview.page("globex", EVERYTHING) == []


async def test_entries_are_counted_where_they_stand(database: Database, overview: Overview) -> None:
    for number in range(3):
        stored = await StoredEntry.open(database, verb=f"kyc.verb-{number}")
    async with database.transaction() as connection:
        await stored.runbook.end_in(connection, stored.entry_id, outcome=None, detail={"result": "ok"})
    counts = await overview.counts("default")

    assert {status.value: count for status, count in counts.items() if count} == {"executing": 2, "completed": 1}
    assert await overview.verbs("default") == ["kyc.verb-0", "kyc.verb-1", "kyc.verb-2"]


async def test_what_waits_for_an_operator_is_a_held_job_or_one_that_nobody_knows(
    database: Database, overview: Overview
) -> None:
    stored = await StoredEntry.open(database)
    await stored.start(9000)
    known = make_instance(instance_uid=stored.instance_uid, entry_id=stored.entry_id)
    async with working(database) as frames:
        await frames.pop_incident(await claimed(frames, make_delivery(make_job(1), known)), INCIDENT)
        await frames.pop_incident(await claimed(frames, make_delivery(make_job(2))), INCIDENT)
    mine = await overview.troubles("default", without_entry=False)
    everything = await overview.troubles("default", without_entry=True)
    one = await overview.find_troubles("default", where=None, key=1, without_entry=False)

    assert [(trouble.job_key, trouble.entry_id, trouble.fail_code) for trouble in mine] == [
        (1, stored.entry_id, INCIDENT.code)
    ]
    assert {trouble.job_key for trouble in everything} == {1, 2}
    assert one == mine
    assert await overview.find_troubles("default", where=None, key=2, without_entry=False) == []
    assert await overview.troubles("globex", without_entry=False) == []


async def test_the_load_tells_of_this_tenant_alone(database: Database, overview: Overview) -> None:
    stored = await StoredEntry.open(database)
    await stored.start(9000)
    await stored.park(stored.token(1, Wait.TIMER))
    known = make_instance(instance_uid=stored.instance_uid, entry_id=stored.entry_id)
    async with working(database) as frames:
        claim = await claimed(frames, make_delivery(make_job(1), known))
        await frames.pop_completed(make_verdict(claim, stored.instance_uid))
    load, other = (
        await overview.load("default", without_entry=False),
        await overview.load("globex", without_entry=False),
    )

    assert (sum(load.arrivals.values()), dict(load.frames)) == (1, {"completed": 1})
    assert [(wait.kind, wait.waits) for wait in load.waits] == [("timer", 1)]
    assert [(one.verb, one.frames, 0 <= one.p50 <= one.p95) for one in load.durations] == [("kyc.check", 1, True)]
    assert (other.arrivals, other.frames, other.waits, other.durations) == ({}, {}, (), ())


async def test_the_fingerprints_change_with_gates_and_letters(database: Database, overview: Overview) -> None:
    before = await overview.fingerprints()
    stored = await StoredEntry.open(database)
    await stored.park(stored.token(1, Wait.HUMAN_GATE, gate="review", job_key=1))
    after = await overview.fingerprints()
    await database.execute("UPDATE verbworker.parked_token SET claimed_by = 'ann', claimed_at = clock_timestamp()")
    taken = await overview.fingerprints()
    await database.execute(
        "INSERT INTO verbworker.dead_letter (tenant_id, code, reason, body, sent_by)"
        " VALUES ('default', 'invalid', 'r', 'b', 's')"
    )

    assert len({before["gates"], after["gates"], taken["gates"]}) == 3
    assert (await overview.fingerprints())["letters"] != before["letters"] == taken["letters"]
