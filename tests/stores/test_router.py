"""The router on a real database and an engine in memory: one way in for both strategies, each request once."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.entries import entries_of
from tests.support.eventually import eventually
from tests.support.ledger import EFFECTS, TABLE, Account, Provider, ledger_verbs, ledger_workflow
from tests.support.start_router import StartSetup, asking, open_starts
from verblint.contracts.contract import Argument, Gate
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call
from verbworker.engine.protocol import Start, Started
from verbworker.errors import InvocationInvalid, RequestConflict, StoreConflict
from verbworker.runbook.event import Entry, EntryMode, Kind, Status
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.testing.memory import MemoryEngine
from verbworker.work.starts.await_end import await_end

BOOK = "(ledger.book :amount 7)"
SETTLE = "(ledger.settle :amount 7)"


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def registry(provider: Provider) -> Registry:
    verbs = ledger_verbs(provider, "ledger")
    workflow = ledger_workflow(verbs, "ledger")
    args = {"amount": Argument(type="integer", required=True)}
    settle = replace(workflow, args=args, initial={"amount": "args.amount"})
    return verbs.declare(settle, startable=[verb.name for verb in verbs])


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=8) as database:
        await database.execute(TABLE)
        yield database


@pytest.fixture
def engine() -> MemoryEngine:
    engine = MemoryEngine("memory")
    engine.line("ledger-settle", ["ledger.book"])
    return engine


@pytest.fixture
async def starts(database: Database, registry: Registry, engine: MemoryEngine) -> AsyncIterator[StartSetup]:
    async with open_starts(database, registry, engine) as opened:
        yield opened


async def effects(database: Database) -> int:
    row = await database.fetchrow(EFFECTS)
    assert row is not None
    return int(row["count"])


@pytest.mark.parametrize("sentence", [BOOK, "(ledger.send :amount 7)"])
async def test_a_collision_while_a_direct_verb_is_stored_neither_fails_nor_doubles_it(
    starts: StartSetup, provider: Provider, monkeypatch: pytest.MonkeyPatch, sentence: str
) -> None:
    collisions = [StoreConflict("deadlock detected")] * 2
    end_in = Runbook.end_in

    async def colliding(self: Runbook, *args: Any, **kwargs: Any) -> Any:
        if collisions:
            raise collisions.pop()
        return await end_in(self, *args, **kwargs)

    monkeypatch.setattr(Runbook, "end_in", colliding)

    entry = await starts.router.invoke(sentence, caller=asking())

    assert (entry.status, collisions) == (Status.COMPLETED, [])
    assert await effects(starts.database) + len(provider.calls) == 1


@pytest.mark.req("REG-02", "REG-16", "ADP-10")
async def test_a_direct_verb_has_ended_when_the_router_answers(starts: StartSetup) -> None:
    entry = await starts.router.invoke(BOOK, caller=asking())

    assert (entry.status, entry.mode, entry.asked_by) == (Status.COMPLETED, EntryMode.SYNC, "ann")
    assert (entry.sentence, entry.invocation, entry.args) == ("Book the amount.", BOOK, {"amount": 7})
    assert entry.outcome == {"amount": 7, "booked": True, "sent": False, "note": ""}
    assert await effects(starts.database) == 1
    kinds = [event.kind for event in await starts.runbook.events(entry.entry_id)]
    assert kinds == [Kind.STEP_COMPLETED, Kind.RESULT]


@pytest.mark.req("REG-01", "REG-17", "ADP-10", "WAIT-07")
async def test_a_workflow_verb_is_under_way_when_the_router_answers(starts: StartSetup, engine: MemoryEngine) -> None:
    entry = await starts.router.invoke("ledger.settle", {"amount": 7}, caller=asking())

    assert (entry.status, entry.mode, entry.process_id) == (Status.EXECUTING, EntryMode.DURABLE, "ledger-settle")
    assert entry.invocation == SETTLE
    assert not engine.jobs

    assert await starts.dispatcher.drain() == 1

    assert len(engine.jobs) == 1
    (started,) = await starts.runbook.events(entry.entry_id)
    assert (started.kind, started.detail["version"]) == (Kind.STARTED, 1)


@pytest.mark.req("EVT-10")
@pytest.mark.parametrize("mode", EntryMode)
async def test_an_entry_says_whether_it_ends_at_once_goes_on_or_asks_people(
    database: Database, registry: Registry, engine: MemoryEngine, mode: EntryMode
) -> None:
    workflow = registry.workflows["ledger.settle"]
    gates = {"review": Gate("review", "review", ("yes", "no"), "reviewer")} if mode is EntryMode.HUMAN_GATE else {}
    known = Registry()
    for verb in registry:
        known.add(verb)
    known.declare(replace(workflow, gates=gates), startable=[verb.name for verb in registry])

    async with open_starts(database, known, engine) as starts:
        entry = await starts.router.invoke(BOOK if mode is EntryMode.SYNC else SETTLE, caller=asking())
        (listed,) = await entries_of(database, "tests")

    assert (entry.mode, listed.mode) == (mode, mode)


@pytest.mark.req("VER-01", "REG-04")
async def test_an_entry_is_pinned_to_what_the_engine_started(starts: StartSetup) -> None:
    entry = await starts.router.invoke(SETTLE, caller=asking())
    await starts.dispatcher.drain()

    pinned = await starts.runbook.entry(entry.entry_id)

    assert pinned is not None
    assert (pinned.verb_version, pinned.process_version) == ("1", 1)
    assert pinned.definition_key is not None


@pytest.mark.parametrize("asked", [BOOK, SETTLE])
async def test_one_request_key_is_one_entry_however_often_and_at_once_it_is_sent(
    starts: StartSetup, engine: MemoryEngine, asked: str
) -> None:
    entries = await asyncio.gather(*(starts.router.invoke(asked, caller=asking("r-1")) for _ in range(8)))
    await starts.dispatcher.drain()

    assert len({entry.entry_id for entry in entries}) == 1
    assert (await effects(starts.database), len(engine.jobs)) in ((1, 0), (0, 1))


async def test_a_request_key_has_a_length_that_an_index_holds(starts: StartSetup) -> None:
    longest = "\N{GRINNING FACE}".join(uuid4().hex for _ in range(16))[:512]

    await starts.router.invoke(BOOK, caller=asking(longest))
    with pytest.raises(InvocationInvalid, match="the request key has 513 characters, and 512 is the most"):
        asking(longest + "x")


async def test_the_same_key_for_something_else_is_refused(starts: StartSetup) -> None:
    first = await starts.router.invoke(BOOK, caller=asking("r-1"))

    with pytest.raises(RequestConflict) as refused:
        await starts.router.invoke("(ledger.book :amount 8)", caller=asking("r-1"))

    assert str(refused.value) == f"the request key 'r-1' was used before for something else (entry {first.entry_id})"
    assert await effects(starts.database) == 1


@pytest.mark.req("X-33")
async def test_two_tenants_may_use_the_same_key(starts: StartSetup) -> None:
    ours = await starts.router.invoke(BOOK, caller=asking("r-1"))
    theirs = await starts.router.invoke(BOOK, caller=asking("r-1", tenant="others"))

    assert ours.entry_id != theirs.entry_id
    assert await effects(starts.database) == 2


@pytest.mark.parametrize(
    ("what", "args", "sentence"),
    [
        ("(ledger.bok :amount 7)", None, "there is no verb ledger.bok; did you mean ledger.book?"),
        ("zzz", {}, "there is no verb zzz"),
        ("(ledger.settle)", None, "ledger.settle: the argument amount is missing"),
        ("ledger.settle", {"amount": "7"}, "ledger.settle: the argument amount must be of type integer"),
        ("(ledger.settle :amount 7 :x 1)", None, "ledger.settle: there is no argument 'x'"),
        (
            "(ledger.settle :amount 7 :amuont 1)",
            None,
            "ledger.settle: there is no argument 'amuont' (did you mean amount?)",
        ),
        ("(ledger.book :amunt 7)", None, "ledger.book: there is no argument 'amunt' (did you mean amount?)"),
        ("ledger.book", {"amount": float("nan")}, "ledger.book: "),
    ],
)
async def test_what_does_not_fit_is_refused_before_anything_happens(
    starts: StartSetup, what: str, args: dict[str, Any] | None, sentence: str
) -> None:
    with pytest.raises(InvocationInvalid) as refused:
        await starts.router.invoke(what, args, caller=asking())

    assert str(refused.value).startswith(sentence)
    assert await entries_of(starts.database, "tests") == []


# The second field is written by a step, which may still give it a text.
@pytest.mark.parametrize(
    ("template", "is_refused"), [("${args.name}", True), ("${state.name}", True), ("${state.note}", False)]
)
async def test_a_key_that_is_blank_for_good_is_refused(
    starts: StartSetup, registry: Registry, template: str, is_refused: bool
) -> None:
    settle = registry.workflows["ledger.settle"]
    initial = {**settle.initial, "name": "args.name", "note": "args.name"}
    args = {**settle.args, "name": Argument(type="string", required=True)}
    named = replace(
        settle,
        name="ledger.named",
        process="ledger-named",
        args=args,
        initial=initial,
        correlation={"corr_name": template},
    )
    registry.declare(named)
    asked = {"amount": 7, "name": " "}
    if not is_refused:
        assert await starts.router.invoke("ledger.named", asked, caller=asking())
        return

    with pytest.raises(InvocationInvalid, match=r"ledger\.named: the correlation key corr_name is blank"):
        await starts.router.invoke("ledger.named", asked, caller=asking())


@pytest.mark.req("REG-13")
async def test_a_workflow_is_not_started_from_inside_a_job(starts: StartSetup, registry: Registry) -> None:
    @registry.verb("ledger.nest", mode="external", writes=())
    async def nest(account: Account, call: Call) -> Account:
        """Try to start a workflow."""
        await starts.router.invoke(SETTLE, caller=asking())
        return account

    entry = await starts.router.invoke("(ledger.nest)", caller=asking())

    (ended,) = await starts.runbook.events(entry.entry_id)
    assert (entry.status, ended.detail["code"]) == (Status.FAILED, "WorkflowVerbNested")
    assert [found.verb for found in await entries_of(starts.database, "tests")] == ["ledger.nest"]


async def test_a_direct_verb_that_fails_leaves_an_entry_that_says_so_and_nothing_else(starts: StartSetup) -> None:
    entry = await starts.router.invoke("(ledger.refuse)", caller=asking())

    (ended,) = await starts.runbook.events(entry.entry_id)
    assert (entry.status, entry.outcome) == (Status.FAILED, None)
    assert (ended.detail["result"], ended.detail["code"]) == ("err", "ACCOUNT_CLOSED")
    assert await effects(starts.database) == 0


async def test_a_performer_who_lost_the_entry_changes_nothing(starts: StartSetup, provider: Provider) -> None:
    provider.hold()
    slow = asyncio.create_task(starts.router.invoke("(ledger.annotate)", caller=asking("r-1")))
    await provider.reached.wait()
    (entry,) = await entries_of(starts.database, "tests")
    await starts.database.execute(
        "UPDATE verbworker.runbook_entry SET lease_until = clock_timestamp() - interval '1 s'"
    )
    taken = await starts.runbook.take(entry.entry_id, uuid4(), timedelta(seconds=60))
    provider.may_go_on.set()

    left = await slow

    assert taken is not None
    assert left.status is Status.EXECUTING
    assert await starts.runbook.events(entry.entry_id) == []


@pytest.mark.req("WAIT-09", "REG-09")
async def test_a_blocking_verb_is_waited_for(database: Database, registry: Registry, engine: MemoryEngine) -> None:
    blocking = Registry()
    for verb in registry:
        blocking.add(verb)
    blocking.declare(replace(registry.workflows["ledger.settle"], wait="blocking"))
    async with open_starts(database, blocking, engine) as starts:
        asked = asyncio.create_task(starts.router.invoke(SETTLE, caller=asking()))
        found = await eventually(lambda: entries_of(starts.database, "tests"))
        async with database.transaction() as connection:
            await starts.runbook.end_in(connection, found[0].entry_id, outcome=b"{}", detail={"result": "ok"})

        assert (await asked).status is Status.COMPLETED


async def test_a_blocking_verb_that_takes_too_long_is_left_under_way(starts: StartSetup) -> None:
    entry = await starts.router.invoke(SETTLE, caller=asking())

    async def read() -> Entry:
        (found,) = await entries_of(starts.database, "tests")
        return found

    assert (await await_end(read, timeout=timedelta(0))) == await read()
    assert entry.status is Status.EXECUTING


@pytest.mark.req("ADP-02")
async def test_an_engine_that_is_away_delays_every_start_and_doubles_none(
    starts: StartSetup, engine: MemoryEngine
) -> None:
    entries = [await starts.router.invoke(SETTLE, caller=asking(f"r-{n}")) for n in range(5)]
    engine.drop("start", times=5)
    assert await starts.dispatcher.drain() == 5
    assert await starts.dispatches.trouble(entries[0].entry_id) == "the command was lost"
    assert await starts.dispatcher.drain() == 0  # each waits before it is tried again

    await due_now(starts.database)
    assert await starts.dispatcher.drain() == 5
    await due_now(starts.database)
    assert await starts.dispatcher.drain() == 0

    assert len(engine.jobs) == 5


async def test_a_bug_with_one_start_holds_up_no_other(
    starts: StartSetup, engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        await starts.router.invoke(SETTLE, caller=asking(f"r-{number}"))
    start, calls = engine.start, iter(range(9))

    async def poisoned(asked: Start) -> Started:
        if next(calls) == 1:
            raise KeyError("a bug")
        return await start(asked)

    monkeypatch.setattr(engine, "start", poisoned)
    await starts.dispatcher.drain()
    begun = len(engine.jobs)
    await due_now(starts.database)
    await starts.dispatcher.drain()

    assert (begun, len(engine.jobs)) == (2, 3)
    assert [record.msg for record in caplog.records if record.levelname == "ERROR"] == ["item skipped because of a bug"]


async def test_two_dispatchers_never_ask_for_the_same_request(
    starts: StartSetup, database: Database, registry: Registry, engine: MemoryEngine
) -> None:
    for number in range(40):
        await starts.router.invoke(SETTLE, caller=asking(f"r-{number}"))
    async with open_starts(database, registry, engine) as other:
        await asyncio.gather(*(side.dispatcher.drain() for side in (starts, other) for _ in range(4)))

    assert len(engine.jobs) == 40


async def test_a_busy_engine_leaves_no_doubt(starts: StartSetup, engine: MemoryEngine) -> None:
    uid = await asked_uid(starts)
    engine.refuse("start", times=2)
    for _ in range(3):
        await starts.dispatcher.drain()
        await due_now(starts.database)

    assert len(engine.jobs) == 1
    assert not await starts.dispatches.is_doubtful(uid)


async def test_a_start_whose_answer_was_lost_is_asked_for_again_and_in_doubt(
    starts: StartSetup, engine: MemoryEngine
) -> None:
    uid = await asked_uid(starts)
    engine.lose_answer("start")
    await starts.dispatcher.drain()
    await due_now(starts.database)
    await starts.dispatcher.drain()

    assert len(engine.jobs) == 2
    assert await starts.dispatches.is_doubtful(uid)


async def test_a_lost_start_that_its_first_job_made_known_is_not_asked_for_again(
    starts: StartSetup, engine: MemoryEngine
) -> None:
    uid = await asked_uid(starts)
    engine.lose_answer("start")
    await starts.dispatcher.drain()
    (first,) = engine.jobs.values()
    key = first.job.process_instance_key
    await Instances(starts.database).pin(uid, instance_key=key, definition_key=1, version=1)
    await due_now(starts.database)

    assert await starts.dispatcher.drain() == 0


async def test_a_second_instance_is_cancelled_as_soon_as_it_is_seen(starts: StartSetup, engine: MemoryEngine) -> None:
    uid = await asked_uid(starts)
    (claimed,) = await starts.dispatches.claim(1, claim_for=timedelta(0))
    await due_now(starts.database)
    (again,) = await starts.dispatches.claim(1, claim_for=timedelta(0))
    await Instances(starts.database).pin(uid, instance_key=4711, definition_key=1, version=1)

    await starts.dispatcher.start(again)

    assert (claimed.attempts, again.attempts) == (1, 2)
    assert engine.jobs == {}


async def asked_uid(starts: StartSetup) -> UUID:
    entry = await starts.router.invoke(SETTLE, caller=asking())
    carrier = await Instances(starts.database).of_entry(entry.entry_id)
    assert carrier is not None
    return carrier.instance_uid


async def due_now(database: Database) -> None:
    await database.execute("UPDATE verbworker.dispatch SET next_at = clock_timestamp()")


@pytest.mark.req("REG-20", "REG-21")
async def test_a_verb_that_becomes_a_workflow_is_asked_for_in_the_same_words(
    database: Database, engine: MemoryEngine, provider: Provider
) -> None:
    before, after = ledger_verbs(provider, "ledger"), ledger_verbs(provider, "steps")
    args = {"amount": Argument(type="integer", required=True)}
    promoted = replace(
        ledger_workflow(after, "ledger"), name="ledger.book", args=args, initial={"amount": "args.amount"}
    )
    seen = []

    for registry in (before, after.declare(promoted)):
        async with open_starts(database, registry, engine) as starts:
            entry = await starts.router.invoke(BOOK, caller=asking())
            seen.append((entry.verb, entry.invocation, entry.args, entry.mode))

    direct, workflow = seen
    assert direct[:3] == workflow[:3]
    assert (direct[3], workflow[3]) == (EntryMode.SYNC, EntryMode.DURABLE)
