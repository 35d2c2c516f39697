"""The runbook's spine: told once, chained, terminal is final, and the frames' own words in the frames' own commits."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from asyncpg import IntegrityConstraintViolationError

from tests.support.databases import blocked, execute, plain, value
from tests.support.entries import INSTANCE_KEY, StoredEntry, entries_of, make_request, told
from tests.support.frames import (
    ENGINE,
    FIRST,
    INCIDENT,
    THROWN,
    claimed,
    make_delivery,
    make_job,
    make_verdict,
    working,
)
from verbworker.errors import Fenced, StoreError
from verbworker.job.frame import Delivery
from verbworker.payload.envelope import TRAIL_LENGTH
from verbworker.runbook.event import Kind, Status, Wait
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=6) as database:
        yield database


@pytest.fixture
async def stored(database: Database) -> StoredEntry:
    return await StoredEntry.open(database)


@pytest.fixture
async def frames(database: Database) -> AsyncIterator[Frames]:
    async with working(database) as frames:
        yield frames


def delivery(stored: StoredEntry, key: int = 1, *, at: int = 1) -> Delivery:
    job = make_job(key, at=at, process_instance_key=INSTANCE_KEY)
    return make_delivery(job, None, instance_uid=stored.instance_uid, entry_id=stored.entry_id)


# ---- events ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("COR-10", "EVT-16")
async def test_a_thing_is_told_once(stored: StoredEntry) -> None:
    first = await stored.runbook.append(stored.entry_id, Kind.TIMER_FIRED, once="timer:7", detail={"name": "a day"})
    second = await stored.runbook.append(stored.entry_id, Kind.TIMER_FIRED, once="timer:7", detail={"name": "a week"})

    (event,) = await stored.events()
    assert (first, second) == (1, None)
    assert event.detail == {"name": "a day"}


async def test_nothing_is_told_of_an_entry_nobody_made(stored: StoredEntry) -> None:
    nobody = make_request().entry_id

    assert await stored.runbook.append(nobody, Kind.RESUMED, once="x", detail={}) is None


@pytest.mark.req("COR-09", "EVT-09", "X-34", "X-35")
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("result", ["ok", "err"])
async def test_one_function_maps_every_event_to_a_status(dsn: str, kind: Kind, result: str, waits: bool) -> None:
    status = await value(
        dsn, "SELECT verbworker.status_after($1, jsonb_build_object('result', $2::text), $3)", kind.value, result, waits
    )

    ends = {Kind.CANCELLED: "cancelled", Kind.RESULT: "completed" if result == "ok" else "failed"}
    assert status == ends.get(kind, "parked" if waits else "executing")


@pytest.mark.req("COR-09", "COR-08", "WAIT-06")
async def test_an_entry_is_parked_while_any_token_is_open(stored: StoredEntry) -> None:
    statuses = []
    for number, act in enumerate(
        (stored.park(stored.token(1)), stored.park(stored.token(2)), stored.unpark(1), stored.unpark(2))
    ):
        await act
        await stored.runbook.append(stored.entry_id, Kind.PARKED, once=f"look:{number}", detail={})
        statuses.append((await stored.entry()).status)

    assert statuses == [Status.PARKED, Status.PARKED, Status.PARKED, Status.EXECUTING]


async def test_a_token_that_closed_stays_closed(stored: StoredEntry) -> None:
    await stored.park(stored.token(1))
    await stored.unpark(1)

    await stored.park(stored.token(1))

    assert await stored.runbook.waits(stored.entry_id) == []


async def test_what_an_entry_waits_for_is_said_in_words(stored: StoredEntry) -> None:
    await stored.park(stored.token(1, Wait.EXTERNAL_SIGNAL, reason="Awaiting documents", message_name="documents"))

    (wait,) = await stored.runbook.waits(stored.entry_id)
    assert (wait.kind, wait.reason, wait.message_name) == (Wait.EXTERNAL_SIGNAL, "Awaiting documents", "documents")


async def ended(stored: StoredEntry, result: str, kind: Kind = Kind.RESULT, outcome: bytes | None = b"{}") -> bool:
    async with stored.database.transaction() as connection:
        return await stored.runbook.end_in(
            connection, stored.entry_id, outcome=outcome, detail={"result": result}, kind=kind
        )


@pytest.mark.req("COR-09", "COR-06")
async def test_an_end_is_final(stored: StoredEntry) -> None:
    assert await ended(stored, "ok", outcome=b'{"case":"closed"}')

    assert not await ended(stored, "err", outcome=b'{"case":"lost"}')
    assert not await ended(stored, "", Kind.CANCELLED)

    entry = await stored.entry()
    assert (entry.status, entry.outcome) == (Status.COMPLETED, {"case": "closed"})
    assert entry.ended_at is not None
    assert await stored.kinds() == ["ExecutionResult"]


async def test_what_comes_after_the_end_is_kept_and_changes_no_status(stored: StoredEntry) -> None:
    await ended(stored, "", Kind.CANCELLED)

    await stored.runbook.append(stored.entry_id, Kind.STEP_COMPLETED, once="step:1", detail={"verb": "kyc.late"})

    assert await stored.kinds() == ["Cancelled", "StepCompleted"]
    assert (await stored.entry()).status is Status.CANCELLED


async def test_an_end_closes_what_was_waited_for(stored: StoredEntry) -> None:
    await stored.park(stored.token(1))

    await ended(stored, "ok")

    assert await stored.value("SELECT closed_as FROM verbworker.parked_token") == "ended"


async def test_a_wait_that_comes_after_the_end_does_not_stand(stored: StoredEntry) -> None:
    await ended(stored, "ok")

    await stored.park(stored.token(1))
    await stored.runbook.append(stored.entry_id, Kind.PARKED, once="parked:1", detail={})

    assert await stored.runbook.waits(stored.entry_id) == []
    assert (await stored.entry()).status is Status.COMPLETED


@pytest.mark.req("COR-06", "COR-02")
async def test_an_entry_that_ends_takes_its_instance_with_it_and_both_stay(stored: StoredEntry) -> None:
    await stored.start()

    await ended(stored, "err")

    row = await stored.database.fetchrow(
        "SELECT status, ended_at IS NOT NULL FROM verbworker.workflow_instance WHERE instance_uid = $1",
        stored.instance_uid,
    )
    assert tuple(row or ()) == ("failed", True)


async def test_an_end_and_the_end_of_a_wait_do_not_lock_each_other_out(stored: StoredEntry, dsn: str) -> None:
    await stored.park(stored.token(1))
    async with asyncio.TaskGroup() as tasks, stored.database.transaction() as connection:
        await stored.runbook.unpark_in(connection, ENGINE, 1, closed_as="resumed")
        ending = tasks.create_task(ended(stored, "ok"))
        await blocked(dsn)
        seq = await stored.runbook.append_in(connection, stored.entry_id, Kind.RESUMED, once="r", detail={})

    assert seq == 1
    assert ending.result()
    assert await stored.kinds() == ["Resumed", "ExecutionResult"]


# ---- the chain -------------------------------------------------------------------------------------------------------


async def chain(stored: StoredEntry, length: int = 4) -> None:
    for number in range(length):
        await stored.runbook.append(stored.entry_id, Kind.TIMER_FIRED, once=f"t{number}", detail={"name": f"t{number}"})


@pytest.mark.req("EVT-16", "COR-10")
async def test_a_chain_that_nobody_touched_holds(stored: StoredEntry) -> None:
    await chain(stored)

    seen = await stored.runbook.verify("default")
    assert (seen.entries, seen.events, seen.broken) == (1, 4, {})


TAMPERINGS = {
    "changed": 'UPDATE verbworker.runbook_event SET detail = \'{"name": "x"}\' WHERE seq = 2',
    "another status": "UPDATE verbworker.runbook_event SET status = 'parked' WHERE seq = 2",
    "moved in time": "UPDATE verbworker.runbook_event SET at = at + interval '1 hour' WHERE seq = 2",
    "dropped": "DELETE FROM verbworker.runbook_event WHERE seq = 2",
    "inserted": "INSERT INTO verbworker.runbook_event SELECT entry_id, 9, at, kind, 'x', detail, status, hash"
    " FROM verbworker.runbook_event WHERE seq = 4",
    "reordered": "UPDATE verbworker.runbook_event SET seq = CASE seq WHEN 2 THEN 30 ELSE 2 END WHERE seq IN (2, 3);"
    " UPDATE verbworker.runbook_event SET seq = 3 WHERE seq = 30",
    "shortened": "DELETE FROM verbworker.runbook_event WHERE seq = 4",
    "emptied": "DELETE FROM verbworker.runbook_event",
}
PLACES = {"inserted": 9, "shortened": 4, "emptied": 1, "dropped": 3}


@pytest.mark.req("EVT-16")
@pytest.mark.parametrize("name", list(TAMPERINGS))
async def test_a_chain_that_somebody_touched_does_not_hold(stored: StoredEntry, dsn: str, name: str) -> None:
    await chain(stored)
    untouched = await StoredEntry.open(stored.database)
    await chain(untouched, 2)
    at_entry = f"entry_id = '{stored.entry_id}'"
    statement = TAMPERINGS[name].replace("WHERE", f"WHERE {at_entry} AND")
    if "WHERE" not in statement:
        statement += f" WHERE {at_entry}"
    async with plain(dsn) as connection:
        # As whoever owns the table could: the trigger is only the first wall.
        await connection.execute("ALTER TABLE verbworker.runbook_event DISABLE TRIGGER ALL")
        await connection.execute(statement)

    assert (await stored.runbook.verify("default")).broken == {stored.entry_id: PLACES.get(name, 2)}
    assert (await stored.runbook.verify("default", untouched.entry_id)).broken == {}
    assert (await stored.runbook.verify("another tenant")).broken == {}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE verbworker.runbook_event SET kind = 'Cancelled'",
        "DELETE FROM verbworker.runbook_event",
        "TRUNCATE verbworker.runbook_event",
    ],
)
async def test_events_are_appended_and_never_changed(stored: StoredEntry, dsn: str, statement: str) -> None:
    await chain(stored, 1)

    with pytest.raises(IntegrityConstraintViolationError, match="never changed"):
        await execute(dsn, statement)


async def test_appends_of_one_entry_wait_for_each_other_and_keep_the_chain(stored: StoredEntry, dsn: str) -> None:
    async with asyncio.TaskGroup() as tasks, stored.database.transaction() as connection:
        first = await stored.runbook.append_in(connection, stored.entry_id, Kind.TIMER_FIRED, once="a", detail={})
        second = tasks.create_task(stored.runbook.append(stored.entry_id, Kind.TIMER_FIRED, once="b", detail={}))
        same = tasks.create_task(stored.runbook.append(stored.entry_id, Kind.TIMER_FIRED, once="a", detail={}))
        await blocked(dsn, 2)

    assert (first, second.result(), same.result()) == (1, 2, None)
    assert (await stored.runbook.verify("default")).broken == {}


async def test_many_at_once_keep_the_chain(stored: StoredEntry) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(40):
            append = stored.runbook.append(stored.entry_id, Kind.TIMER_FIRED, once=f"t{number % 20}", detail={})
            tasks.create_task(append)

    seen = await stored.runbook.verify("default")
    assert (seen.events, seen.broken) == (20, {})


# ---- what frames and starts tell -------------------------------------------------------------------------------------


@pytest.mark.req("EVT-01", "COR-02", "COR-07", "X-39")
async def test_the_start_pins_the_entry_and_is_told(stored: StoredEntry) -> None:
    assert await stored.start()
    assert not await stored.start(4711)

    entry, (event,) = await stored.entry(), await stored.events()
    assert (entry.process_version, entry.definition_key, entry.status) == (3, 70, Status.EXECUTING)
    assert event.kind is Kind.STARTED
    assert told(event, "instance_key", "version", "process") == {
        "instance_key": INSTANCE_KEY,
        "version": 3,
        "process": "kyc",
    }
    assert await stored.value("SELECT done_at IS NOT NULL FROM verbworker.dispatch")


@pytest.mark.req("EVT-02", "EVT-15", "COR-03", "JOB-16")
async def test_a_completed_frame_is_told_in_its_own_commit(stored: StoredEntry, frames: Frames) -> None:
    await stored.start()
    claim = await claimed(frames, delivery(stored))
    assert await stored.kinds() == ["DurableTaskStarted"]

    await frames.pop_completed(make_verdict(claim, stored.instance_uid))

    event = (await stored.events())[-1]
    assert event.kind is Kind.STEP_COMPLETED
    assert told(event, "verb", "outcome", "job_key", "instance_key", "runs") == {
        "verb": "kyc.check",
        "outcome": "complete",
        "job_key": 1,
        "instance_key": INSTANCE_KEY,
        "runs": 1,
    }


@pytest.mark.req("PAY-12")
async def test_the_runbook_keeps_every_step_of_a_case_of_which_the_payload_keeps_the_last(
    stored: StoredEntry, frames: Frames
) -> None:
    await stored.start()
    base, steps = FIRST, TRAIL_LENGTH + 5
    for number in range(1, steps + 1):
        claim = await claimed(frames, delivery(stored, key=number))
        output = b'{"step":%d}' % number
        await frames.pop_completed(make_verdict(claim, stored.instance_uid, base=base, output=output))
        base = output

    told_of = [event.detail["job_key"] for event in await stored.events() if event.kind is Kind.STEP_COMPLETED]
    assert told_of == list(range(1, steps + 1))
    assert (
        await stored.value(
            "SELECT count(*) FROM verbworker.runbook_event WHERE entry_id = $1 AND kind = 'StepCompleted'",
            stored.entry_id,
        )
        == steps
    )


async def test_a_step_that_is_rolled_back_was_not_told(stored: StoredEntry, frames: Frames) -> None:
    await stored.start()
    claim = await claimed(frames, delivery(stored))

    async def pop_and_fail() -> None:
        async with stored.database.transaction() as connection:
            assert await frames.pop_completed_in(connection, make_verdict(claim, stored.instance_uid))
            await connection.execute("SELECT 1 / 0")

    with pytest.raises(StoreError, match="division"):
        await pop_and_fail()

    assert await stored.kinds() == ["DurableTaskStarted"]


async def test_a_step_that_threw_says_its_code(stored: StoredEntry, frames: Frames) -> None:
    await stored.start()

    await frames.pop_thrown(await claimed(frames, delivery(stored)), THROWN)

    event = (await stored.events())[-1]
    assert told(event, "outcome", "error_code") == {"outcome": "bpmn_error", "error_code": "REJECTED"}


@pytest.mark.req("EVT-08", "EVT-14", "X-34", "X-35")
async def test_an_incident_parks_the_entry_and_a_release_resumes_it(stored: StoredEntry, frames: Frames) -> None:
    await stored.start()
    claim = await claimed(frames, delivery(stored))
    await frames.pop_incident(claim, INCIDENT)
    (wait,), held = await stored.runbook.waits(stored.entry_id), await stored.entry()

    await frames.record_report(1, claim.epoch)
    await claimed(frames, delivery(stored, at=4_000_000_000_000))

    assert (wait.kind, wait.reason) == (Wait.INCIDENT, "Waiting for an operator: kyc.check")
    assert held.status is Status.PARKED
    assert await stored.kinds() == ["DurableTaskStarted", "IncidentRaised", "Parked", "IncidentResolved", "Resumed"]
    assert told((await stored.events())[1], "class", "code", "text", "job_key") == {
        "class": "PermanentContract",
        "code": "PayloadIntegrityError",
        "text": "hash differs",
        "job_key": 1,
    }
    assert await stored.runbook.waits(stored.entry_id) == []
    assert (await stored.entry()).status is Status.EXECUTING


@pytest.mark.req("EVT-14")
async def test_a_second_incident_of_the_same_job_is_told_again(stored: StoredEntry, frames: Frames) -> None:
    await stored.start()
    for at in (1, 4_000_000_000_000):
        claim = await claimed(frames, delivery(stored, at=at))
        await frames.pop_incident(claim, INCIDENT)
        await frames.record_report(1, claim.epoch)

    assert (await stored.kinds()).count("IncidentRaised") == 2
    assert len(await stored.runbook.waits(stored.entry_id)) == 1
    assert (await stored.entry()).status is Status.PARKED


async def test_a_late_job_of_an_ended_entry_that_stops_concerns_nobody(stored: StoredEntry, frames: Frames) -> None:
    await stored.start()
    claim = await claimed(frames, delivery(stored))
    await ended(stored, "", Kind.CANCELLED)

    await frames.pop_incident(claim, INCIDENT)

    assert await stored.kinds() == ["DurableTaskStarted", "Cancelled"]
    assert await stored.runbook.waits(stored.entry_id) == []
    assert (await frames.count_waiting()).held == 0


async def test_a_frame_of_a_twin_tells_nothing(stored: StoredEntry, frames: Frames) -> None:
    await stored.start(instance_key=4711)

    with pytest.raises(Fenced):
        await frames.pop_completed(make_verdict(await claimed(frames, delivery(stored)), stored.instance_uid))

    assert await stored.kinds() == ["DurableTaskStarted"]


# ---- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("COR-05", "COR-02", "COR-03", "COR-08")
async def test_an_entry_its_instance_its_jobs_and_its_waits_are_found_from_each_other(
    stored: StoredEntry, frames: Frames
) -> None:
    await stored.start()
    await claimed(frames, delivery(stored))
    await stored.park(stored.token(1))

    rows = await stored.database.fetch(
        "SELECT instance.instance_key, frame.job_key, token.element_instance_key"
        " FROM verbworker.workflow_instance AS instance JOIN verbworker.job_frame AS frame USING (instance_uid)"
        " JOIN verbworker.parked_token AS token USING (instance_uid) WHERE instance.entry_id = $1",
        stored.entry_id,
    )
    assert [tuple(row) for row in rows] == [(INSTANCE_KEY, 1, 1)]


@pytest.mark.req("COR-11", "COR-04", "COR-01")
async def test_an_entry_is_read_by_its_tenant_alone_with_all_that_was_asked(database: Database) -> None:
    stored = await StoredEntry.open(database, provenance={"pack": "kyc", "runbook": "r-1"})

    assert await stored.runbook.entry(stored.entry_id, tenant_id="another") is None
    entry = await stored.runbook.entry(stored.entry_id, tenant_id="default")
    assert entry is not None
    assert (entry.sentence, entry.asked_by, entry.status) == ("Open a case", "ada", Status.EXECUTING)
    assert entry.provenance == {"pack": "kyc", "runbook": "r-1"}


async def test_entries_are_listed_newest_first_and_by_status(database: Database) -> None:
    stored_entries = [await StoredEntry.open(database) for _ in range(3)]
    await ended(stored_entries[1], "ok")

    newest = [entry.entry_id for entry in await entries_of(database, "default")]
    completed = [entry.entry_id for entry in await entries_of(database, "default", Status.COMPLETED)]
    assert newest == [stored.entry_id for stored in reversed(stored_entries)]
    assert completed == [stored_entries[1].entry_id]


async def test_events_are_read_from_a_place_on(stored: StoredEntry) -> None:
    await chain(stored, 3)

    assert [event.seq for event in await stored.runbook.events(stored.entry_id, after=1)] == [2, 3]
