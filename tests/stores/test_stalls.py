"""The one definition of what stands still: what keeps an entry from it, how long is too long, and when it is over."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.support.entries import INSTANCE_KEY, StoredEntry
from tests.support.frames import ENGINE
from verbworker.runbook.event import DueBy, Kind, StallKind, Wait
from verbworker.stores.cases.overview import Filter, Overview
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.cases.stalls import Stalls, Standstill
from verbworker.stores.database import Database

HOUR = timedelta(hours=1)
FRAME = """
INSERT INTO verbworker.job_frame (
  engine_id, job_key, process_instance_key, element_instance_key, verb, tenant_id, process_id, process_version,
  element_id, mode, on_unknown, max_runs, idempotency_window, idempotency_key, owner, lease_until, activated_ms,
  retries_left, input_hash, instance_uid, state, next_retry_at, reported_at, acked_at, outcome
) VALUES (
  'engine-1', 1, {instance}, 2, 'kyc.check', 'default', 'kyc', 1, 'check', 'external', 'rerun', 5, '1 day', 'k',
  gen_random_uuid(), clock_timestamp(), 0, 3, '', $1, '{state}', {retry}, {reported}, {acked}, {outcome}
)
"""
NULL, NOW, BEFORE = "NULL", "clock_timestamp()", "clock_timestamp() - interval '2 hours'"


def frame(
    state: str = "started",
    *,
    instance: int = INSTANCE_KEY,
    retry: str = NULL,
    reported: str = NULL,
    acked: str = NULL,
    outcome: str = NULL,
) -> str:
    return FRAME.format(state=state, instance=instance, retry=retry, reported=reported, acked=acked, outcome=outcome)


OF_INSTANCE = "(SELECT entry_id FROM verbworker.workflow_instance WHERE instance_uid = $1)"
ENTRY = f"UPDATE verbworker.runbook_entry SET {{}} WHERE entry_id = {OF_INSTANCE}"
DECISION = """
WITH token AS (
  INSERT INTO verbworker.parked_token (
    tenant_id, entry_id, instance_uid, engine_id, instance_key, element_instance_key, element_id, kind, reason, gate,
    closed_at, closed_as
  )
  SELECT tenant_id, entry_id, instance_uid, engine_id, 9000, 5, 'review', 'human_gate', 'x', 'review', now(), 'decided'
  FROM verbworker.workflow_instance WHERE instance_uid = $1
  RETURNING token_id, tenant_id, entry_id, instance_uid
)
INSERT INTO verbworker.gate_decision (
  token_id, tenant_id, entry_id, instance_uid, gate, decision, reason, decided_by, decided_at, acked_at, answer
)
SELECT token_id, tenant_id, entry_id, instance_uid, 'review', 'yes', '', 'ada', {}, {}, {} FROM token
"""
MESSAGE = """
INSERT INTO verbworker.inbox_message (
  tenant_id, message_id, message_name, correlation_key, body_hash, sent_by, state, instance_uid, engine_id, ttl,
  expires_at, published_at
) VALUES ('default', 'm', 'n', 'k', '', 'x', 'published', $1, 'engine-1', '1 hour', now() + interval '1 hour', {})
"""
DELIVERY = """
INSERT INTO verbworker.job_delivery (engine_id, job_key, type, instance_uid, retries, owner, lease_until)
VALUES ('engine-1', 1, 'verbworker.park', $1, 3, gen_random_uuid(), clock_timestamp())
"""
UNDER_WAY = {
    "a frame that runs": frame(),
    "a frame that waits for its retry": frame("failed", retry=f"{NOW} + interval '1 hour'"),
    "a verdict the engine has not heard": frame("completed", outcome="'bpmn_error'"),
    "a verdict the engine has just heard": frame("completed", outcome="'bpmn_error'", acked=NOW),
    "a delivery": DELIVERY,
    "a cancel": ENTRY.format("cancel_requested_at = clock_timestamp()"),
    "a performer": ENTRY.format("lease_until = clock_timestamp() + interval '1 minute'"),
    "a performer until just now": ENTRY.format("lease_until = clock_timestamp() - interval '1 minute'"),
    "a decision the engine has not heard": DECISION.format(NOW, NULL, NULL),
    "a decision the engine has just heard": DECISION.format(NOW, NOW, "'completed'"),
    "a message that was just published": MESSAGE.format(NOW),
    "a start that was not answered": "UPDATE verbworker.dispatch SET done_at = NULL WHERE instance_uid = $1",
    "news": ENTRY.format("updated_at = clock_timestamp()"),
    "an end": ENTRY.format("status = 'completed', ended_at = clock_timestamp()"),
}
STILL = {
    "nothing": "SELECT 1 FROM verbworker.workflow_instance WHERE instance_uid = $1",
    "a verdict the engine heard long ago": frame("completed", outcome="'bpmn_error'", acked=BEFORE),
    "a decision the engine heard long ago": DECISION.format(NOW, BEFORE, "'completed'"),
    "a frame of a duplicate": frame("incident", instance=1),
    "a message that was published long ago": MESSAGE.format(BEFORE),
}


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as opened:
        yield opened


async def quiet(database: Database, **changes: object) -> StoredEntry:
    """An entry that the engine has, of which nothing was heard for a day."""
    stored = await StoredEntry.open(database, attempts=1, **changes)
    await stored.start()
    await age(database)
    return stored


async def age(database: Database) -> None:
    await database.execute("UPDATE verbworker.runbook_entry SET updated_at = updated_at - interval '1 day'")


async def found(database: Database, *, gates_after: timedelta = HOUR) -> list[Standstill]:
    return await Stalls(database).find(ENGINE, after=HOUR, gates_after=gates_after, limit=10)


async def note(database: Database, still: Standstill) -> int | None:
    async with database.transaction() as connection:
        seq = await Stalls(database).note_in(connection, still, "why", "what to do")
        if seq is not None:
            once = f"noted:{seq}"
            await Runbook(database).append_in(connection, still.entry_id, still.kind.event, once=once, detail={})
        return seq


@pytest.mark.parametrize("statement", STILL.values(), ids=STILL)
async def test_an_entry_of_which_nothing_is_under_way_stands_still(database: Database, statement: str) -> None:
    stored = await quiet(database)
    await database.execute(statement, stored.instance_uid)

    (still,) = await found(database)

    assert (still.entry_id, still.kind, still.instance_key) == (stored.entry_id, StallKind.JOB, INSTANCE_KEY)
    assert [still.entry.entry_id for still in await stored.runbook.stuck("default", longer_than=HOUR)] == [
        stored.entry_id
    ]


LATE = "UPDATE verbworker.job_frame SET popped_at = now() - interval '2 hours' WHERE instance_uid = $1"
STUCK = {
    "it waits to be started on the engine engine-1: no process kyc": [
        "UPDATE verbworker.dispatch SET done_at = NULL, created_at = now() - interval '2 hours', "
        "last_error = 'no process kyc' WHERE instance_uid = $1"
    ],
    "it waits to be started on the engine engine-1; no worker of that engine asked it, or it did not answer": [
        "UPDATE verbworker.dispatch SET done_at = NULL, created_at = now() - interval '2 hours' WHERE instance_uid = $1"
    ],
    "kyc.check is held for a person: no reason (job 1)": [frame("incident"), LATE],
    "the engine has not taken the result of kyc.check": [frame("completed", outcome="'bpmn_error'"), LATE],
    "the engine has not taken the decision at review": [
        DECISION.format("now() - interval '2 hours'", NULL, NULL),
    ],
    "the engine has not taken the cancel request": [
        ENTRY.format("cancel_requested_at = clock_timestamp() - interval '2 hours'")
    ],
    "the engine has it, and nothing of it is under way": [],
}


@pytest.mark.parametrize("reason", STUCK)
async def test_an_entry_that_should_have_moved_is_listed_with_the_reason(database: Database, reason: str) -> None:
    stored = await quiet(database)
    for statement in STUCK[reason]:
        await database.execute(statement, stored.instance_uid)

    (still,) = await stored.runbook.stuck("default", longer_than=HOUR)

    assert (still.entry.entry_id, still.reason) == (stored.entry_id, reason)
    assert await stored.runbook.stuck("another", longer_than=HOUR) == []


async def test_a_job_without_a_frame_that_is_held_is_listed_with_the_reason(database: Database) -> None:
    stored = await quiet(database)
    await stored.park(stored.token(kind=Wait.INCIDENT, reason="the message is unknown"))
    await database.execute("UPDATE verbworker.parked_token SET opened_at = now() - interval '2 hours'")

    (still,) = await stored.runbook.stuck("default", longer_than=HOUR)

    assert still.reason == "it is held for a person: the message is unknown"


async def test_an_entry_that_has_ended_is_not_stuck(database: Database) -> None:
    stored = await quiet(database)
    for statement in (frame("incident"), LATE, ENTRY.format("status = 'cancelled', ended_at = clock_timestamp()")):
        await database.execute(statement, stored.instance_uid)

    assert await stored.runbook.stuck("default", longer_than=HOUR) == []


@pytest.mark.parametrize("statement", UNDER_WAY.values(), ids=UNDER_WAY)
async def test_an_entry_of_which_something_is_under_way_does_not(database: Database, statement: str) -> None:
    stored = await quiet(database)
    await database.execute(statement, stored.instance_uid)

    assert await found(database) == []
    assert await stored.runbook.stuck("default", longer_than=HOUR) == []


async def test_an_entry_that_waits_does_not_stand_still(database: Database) -> None:
    stored = await quiet(database)
    await stored.park(stored.token(1, Wait.EXTERNAL_SIGNAL))

    assert await found(database) == []


async def test_a_direct_verb_whose_performer_died_stands_still_on_every_engine(database: Database) -> None:
    stored = await quiet(database)
    await database.execute("DELETE FROM verbworker.dispatch")
    await database.execute("DELETE FROM verbworker.workflow_instance")

    (still,) = await found(database)

    assert (still.entry_id, still.engine_id, still.instance_key) == (stored.entry_id, "", None)


async def test_a_process_with_gates_is_given_the_time_of_a_gate(database: Database) -> None:
    await quiet(database)
    waits = {"review": {"kind": "human_gate", "name": "review"}}
    await database.execute(
        "INSERT INTO verbworker.process_deployment (engine_id, definition_key, process_id, version, verb, resource,"
        " authored_sha256, woven_sha256, woven, waits, deployed_by)"
        " VALUES ($1, 70, 'kyc', 3, 'v', 'r', sha256(''), sha256(''), '', $2, 'x')",
        ENGINE,
        json.dumps(waits),
    )

    assert len(await found(database)) == 1
    assert await found(database, gates_after=timedelta(days=2)) == []


async def test_another_engines_entries_are_left_to_its_own_workers(database: Database) -> None:
    await quiet(database)

    assert await Stalls(database).find("engine-2", after=HOUR, gates_after=HOUR, limit=10) == []


async def test_what_was_named_is_named_once_and_keeps_its_beginning(database: Database) -> None:
    stored = await quiet(database)
    (still,) = await found(database)
    first, second = await note(database, still), await note(database, still)
    await Stalls(database).clear(ENGINE)

    (stall,) = await Stalls(database).of_entry(stored.entry_id)
    assert (first, second) == (2, None)
    assert (stall.since, stall.reason, stall.remedy) == (still.since, "why", "what to do")
    assert await found(database) == []
    assert await Stalls(database).counts(ENGINE) == {**dict.fromkeys(StallKind, 0), StallKind.JOB: 1}
    listed = await Overview(database).page("default", Filter(entry_id=stored.entry_id))
    assert [one.progress.detailed for one in listed] == ["0 steps, stalled"]


@pytest.mark.parametrize("statement", UNDER_WAY.values(), ids=UNDER_WAY)
async def test_what_moves_again_is_named_no_more(database: Database, statement: str) -> None:
    if statement == UNDER_WAY["news"]:
        statement = f"SELECT verbworker.append_event({OF_INSTANCE}, 'Resumed', 'x', '{{}}')"
    stored = await quiet(database)
    (still,) = await found(database)
    await note(database, still)
    await database.execute(statement, stored.instance_uid)

    await Stalls(database).clear(ENGINE)

    assert await Stalls(database).of_entry(stored.entry_id) == []


async def test_what_moved_between_the_look_and_the_note_is_not_named(database: Database) -> None:
    stored = await quiet(database)
    (still,) = await found(database)
    await stored.runbook.append(stored.entry_id, Kind.RESUMED, once="x", detail={})

    assert await note(database, still) is None


async def test_one_that_stands_still_again_is_named_again(database: Database) -> None:
    stored = await quiet(database)
    (still,) = await found(database)
    await note(database, still)
    await stored.runbook.append(stored.entry_id, Kind.RESUMED, once="x", detail={})
    await age(database)
    await Stalls(database).clear(ENGINE)

    (again,) = await found(database)

    assert again.since > still.since
    assert await note(database, again) == 4


async def test_a_retry_is_overdue_from_when_the_engine_was_told_of_it(database: Database) -> None:
    stored = await quiet(database)
    late = frame("failed", retry=BEFORE, reported=BEFORE)
    await database.execute(late, stored.instance_uid)
    (still,) = await found(database)
    await database.execute("UPDATE verbworker.job_frame SET reported_at = clock_timestamp()")

    assert (still.kind, still.place, still.what) == (StallKind.BACKOFF, "1", "kyc.check")
    assert await found(database) == []


@pytest.mark.parametrize(
    "statement",
    [
        frame("failed", retry=BEFORE),
        frame("failed", retry=NOW, reported=BEFORE),
        frame("failed", retry=BEFORE, reported=BEFORE, instance=1),
        frame("failed", retry=BEFORE, reported=BEFORE, acked=NOW),
    ],
    ids=["not reported", "not over", "of a duplicate", "closed"],
)
async def test_a_retry_that_is_not_overdue(database: Database, statement: str) -> None:
    stored = await quiet(database)
    await database.execute(statement, stored.instance_uid)

    assert [still for still in await found(database) if still.kind is StallKind.BACKOFF] == []


async def test_a_wait_whose_timer_is_late_is_named_until_it_ends(database: Database) -> None:
    stored = await quiet(database)
    await stored.park(stored.token(1, due=DueBy(timedelta(hours=-2))))
    await stored.park(stored.token(2, due=DueBy(timedelta(hours=2))))
    (still,) = await found(database)
    await note(database, still)
    await Stalls(database).clear(ENGINE)
    before = await Stalls(database).counts(ENGINE)
    await stored.unpark(1)
    await Stalls(database).clear(ENGINE)

    assert (still.kind, still.place, still.what) == (StallKind.TIMER, "1", "Awaiting something")
    assert before[StallKind.TIMER] == 1
    assert await Stalls(database).of_entry(stored.entry_id) == []


async def test_a_late_timer_whose_end_is_under_way_is_not_named(database: Database) -> None:
    stored = await quiet(database)
    await stored.park(stored.token(1, due=DueBy(timedelta(hours=-2))))
    await database.execute(DELIVERY, stored.instance_uid)

    assert await found(database) == []


async def test_a_wait_whose_message_was_published_is_named_until_it_ends(database: Database) -> None:
    stored = await quiet(database)
    await stored.park(stored.token(1, message_name="n", correlation_key="k"))
    await stored.park(stored.token(2, message_name="n", correlation_key="another"))
    await database.execute("UPDATE verbworker.parked_token SET opened_at = opened_at - interval '3 hours'")
    await database.execute(MESSAGE.format(BEFORE), stored.instance_uid)
    (still,) = await found(database)
    await note(database, still)
    await stored.unpark(1)
    await Stalls(database).clear(ENGINE)

    assert (still.kind, still.place, still.what) == (StallKind.MESSAGE, "1", "n")
    assert await Stalls(database).of_entry(stored.entry_id) == []


EXPIRED = "UPDATE verbworker.inbox_message SET expires_at = clock_timestamp() - interval '4 hours'"
READ = "UPDATE verbworker.inbox_message SET state = 'consumed', consumed_at = clock_timestamp()"


@pytest.mark.parametrize("change", [EXPIRED, READ, DELIVERY], ids=["expired before", "read", "its end is under way"])
async def test_a_wait_whose_message_is_not_owed_is_not_named(database: Database, change: str) -> None:
    stored = await quiet(database)
    await stored.park(stored.token(1, message_name="n", correlation_key="k"))
    await database.execute("UPDATE verbworker.parked_token SET opened_at = opened_at - interval '3 hours'")
    await database.execute(MESSAGE.format(BEFORE), stored.instance_uid)
    await database.execute(change, *([stored.instance_uid] if "$1" in change else []))

    assert await found(database) == []


@pytest.mark.parametrize(("name", "kinds"), [("a week", []), ("another", [StallKind.TIMER])])
async def test_a_timer_that_fired_beside_its_wait_is_not_late(
    database: Database, name: str, kinds: list[StallKind]
) -> None:
    stored = await quiet(database)
    await stored.runbook.append(stored.entry_id, Kind.TIMER_FIRED, once="fired", detail={"name": name})
    await stored.park(stored.token(1, due=DueBy(timedelta(hours=-2), beside=("a week",))))

    assert [still.kind for still in await found(database)] == kinds


async def test_the_worst_of_each_kind_is_told(database: Database) -> None:
    stored = await quiet(database)
    await stored.park(stored.token(1, due=DueBy(timedelta(hours=-3))))
    await stored.park(stored.token(2, due=DueBy(timedelta(hours=-5))))
    for still in await found(database):
        await note(database, still)

    worst = await Stalls(database).worst(ENGINE)

    assert worst.keys() == {StallKind.TIMER}
    assert (worst[StallKind.TIMER].number, worst[StallKind.TIMER].entry_id) == (2, stored.entry_id)
    assert timedelta(hours=4) < worst[StallKind.TIMER].longest < timedelta(hours=6)
