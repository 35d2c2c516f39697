"""Human gates on a real database and an engine in memory: parked once, decided once, told until it is heard."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from tests.support import worker_boot as rooms
from tests.support.eventually import eventually
from tests.support.gate_cases import GATE, TENANT, GateSetup, job_of, memory, opened, review_registry
from tests.support.leasing import LeasingEngine
from verblint.contracts.contract import Gate, GateInput
from verbworker.contract.message import Message
from verbworker.errors import InvocationInvalid, JobGone, NotFound, RequestConflict
from verbworker.job.job import TENANT_ID, Job
from verbworker.job.outcome import NO_RESULT
from verbworker.model.waits import ModelWait, as_json
from verbworker.runbook.event import Kind, Status
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.gates import GateStore, HumanGate
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Database
from verbworker.stores.messages.inbox import Inbox
from verbworker.testing.memory import JobState, MemoryEngine
from verbworker.work.gates.decide import GateRelay, Gates
from verbworker.work.gates.gate_jobs import USER_TASK
from verbworker.work.starts.duplicate_instances import InstanceIdentity

AT_TASK_1 = Gate(GATE, "task_1", ("approve", "reject"), "reviewer")


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=8) as database:
        yield database


@pytest.fixture
def engine() -> MemoryEngine:
    return memory()


@pytest.fixture
async def setup(database: Database, engine: MemoryEngine) -> AsyncIterator[GateSetup]:
    async with opened(database, engine, review_registry(gate=AT_TASK_1)) as setup:
        yield setup


# ---- parking -----------------------------------------------------------------------------------------------------


@pytest.mark.req("WAIT-01", "EVT-03", "COR-08")
async def test_a_user_task_parks_its_entry_at_a_gate(setup: GateSetup) -> None:
    gate = await setup.parked()

    assert (gate.gate, gate.reason, gate.decisions) == (GATE, "Awaiting reviewer", ("approve", "reject"))
    assert (await setup.status(gate.entry_id), gate.closed_at) == (Status.PARKED, None)
    (*_, parked) = await setup.events(gate.entry_id)
    assert parked.kind is Kind.PARKED
    assert parked.detail == {
        "wait": "human_gate",
        "reason": "Awaiting reviewer",
        "gate": GATE,
        "token_id": str(gate.token_id),
    }


@pytest.mark.req("JOB-19")
async def test_a_gate_that_waits_is_a_token_and_no_frame(setup: GateSetup, database: Database) -> None:
    gate = await setup.parked()

    frames = await database.fetch("SELECT job_key FROM verbworker.job_frame")
    tokens = await database.fetch("SELECT token_id FROM verbworker.parked_token WHERE closed_at IS NULL")
    assert (frames, [row["token_id"] for row in tokens]) == ([], [gate.token_id])


@pytest.mark.req("WAIT-04")
async def test_the_task_stays_with_the_engine_until_somebody_decides(setup: GateSetup, engine: MemoryEngine) -> None:
    gate = await setup.parked()

    assert engine.jobs[job_of(gate)].state is JobState.ACTIVATED


@pytest.mark.parametrize("what", ["new", "again", "foreign"])
async def test_a_task_that_was_handed_out_for_seconds_comes_again_after_the_time_of_gates(
    setup: GateSetup, engine: MemoryEngine, what: str
) -> None:
    await setup.ask()
    if what == "again":
        first = await setup.task()
        await setup.handler.serve(first)
        engine.time_out(first.key)
    task = await setup.task(timeout_ms=5_000)
    variables = {} if what == "foreign" else task.variables
    await setup.handler.serve(replace(task, timeout_ms=300_000, variables=variables))

    assert engine.jobs[task.key].until_ms == engine.clock.now_ms + 300_000


@pytest.mark.req("COR-08", "EVT-03")
async def test_a_task_that_comes_again_only_says_that_it_still_waits(setup: GateSetup, engine: MemoryEngine) -> None:
    gate = await setup.parked()
    await setup.change(gate, "seen_at = seen_at - interval '1 hour'")
    engine.time_out(job_of(gate))
    await setup.handler.serve(await setup.task())
    again = await setup.gate(gate.entry_id)

    assert again.token_id == gate.token_id
    assert again.seen_at > gate.seen_at
    assert (await setup.kinds(gate.entry_id)).count(Kind.PARKED) == 1


@pytest.mark.req("PRX-33", "X-26")
async def test_a_user_task_that_no_gate_declares_is_named_after_it(database: Database, engine: MemoryEngine) -> None:
    async with opened(database, engine, review_registry(declared=False)) as setup:
        gate = await setup.parked()
        await setup.decide(gate, "anything goes")

    assert gate.gate == "Update_task_1"
    assert engine.jobs[job_of(gate)].state is JobState.COMPLETED


@pytest.mark.req("PRX-33", "X-26", "PRX-37")
async def test_a_model_may_name_its_gate_itself(database: Database, engine: MemoryEngine) -> None:
    async with opened(database, engine, review_registry(declared=False)) as setup:
        before = await setup.parked()
        await database.execute(
            """
            INSERT INTO verbworker.process_deployment (
              engine_id, definition_key, process_id, version, verb, resource, authored_sha256, woven, woven_sha256,
              waits, deployed_by)
            VALUES ('memory', 1, 'hall-review', 1, 'hall.review', 'r', sha256(''), '', sha256(''), $1, 'tests')
            """,
            json.dumps(as_json({"task_1": ModelWait("human_gate", "Review", gate="four-eyes")})),
        )
        after = await setup.parked()

    assert (before.gate, after.gate, after.reason) == ("Update_task_1", "four-eyes", "Awaiting four-eyes")


@pytest.mark.req("WAIT-01")
async def test_a_gate_says_whom_the_model_asks_and_until_when(setup: GateSetup) -> None:
    entry_id = await setup.ask()
    headers = {
        "io.camunda.zeebe:assignee": "anna",
        "io.camunda.zeebe:candidateGroups": '["reviewers","leads"]',
        "io.camunda.zeebe:candidateUsers": "no list",
        "io.camunda.zeebe:dueDate": "2030-01-31T12:00:00Z",
        "io.camunda.zeebe:formKey": "https://tasks.example/42",
        "mine": "not shown",
    }
    await setup.handler.serve(replace(await setup.task(), headers=headers))

    assert (await setup.gate(entry_id)).detail == {
        "audience": ["reviewer"],
        "decisions": ["approve", "reject"],
        "assignee": "anna",
        "due": "2030-01-31T12:00:00Z",
        "form": "https://tasks.example/42",
        "groups": ["reviewers", "leads"],
        "users": ["no list"],
    }


async def stranger(job: Job, name: str) -> Job:
    match name:
        case "unknown instance":
            return replace(job, variables={**job.variables, "vw_instance_uid": str(uuid4())})
        case "another instance":
            return replace(job, process_instance_key=job.process_instance_key + 1)
        case "another entry":
            return replace(job, variables={**job.variables, "vw_entry_id": str(uuid4())})
        case "another tenant":
            return replace(job, variables={**job.variables, TENANT_ID: "other"})
        case "another process":
            return replace(job, process_id="somebody-elses")
    return replace(job, variables={})


@pytest.mark.req("COR-08")
@pytest.mark.parametrize(
    "name", ["unknown instance", "another instance", "another entry", "another tenant", "another process", "nothing"]
)
async def test_a_task_that_is_not_ours_is_left_alone(setup: GateSetup, engine: MemoryEngine, name: str) -> None:
    entry_id = await setup.ask()
    job = await setup.task()
    await setup.handler.serve(await stranger(job, name))

    assert await setup.gates.list(TENANT, entry_id=entry_id, closed=True) == []
    assert (engine.jobs[job.key].state, engine.jobs[job.key].messages) == (JobState.ACTIVATED, [])


@pytest.mark.req("COR-08")
async def test_the_task_of_an_instance_that_was_cancelled_ends_it_instead_of_asking_anybody(
    database: Database, engine: MemoryEngine
) -> None:
    dispatches = Dispatches(database, engine_id=engine.engine_id, owner=uuid4())
    registry = review_registry(gate=AT_TASK_1)
    async with opened(
        database, engine, registry, identity=InstanceIdentity(Instances(database), engine, dispatches)
    ) as setup:
        entry_id = await setup.ask()
        job = await setup.task()
        async with database.transaction() as connection:
            await setup.starts.runbook.end_in(connection, entry_id, outcome=None, detail={}, kind=Kind.CANCELLED)
        await setup.handler.serve(job)

        assert await setup.gates.list(TENANT, entry_id=entry_id, closed=True) == []
    with pytest.raises(JobGone):
        await engine.complete(job.key, NO_RESULT)


async def test_a_late_task_of_an_entry_that_ended_leaves_no_open_gate(setup: GateSetup) -> None:
    entry_id = await setup.ask()
    job = await setup.task()
    async with setup.database.transaction() as connection:
        await setup.starts.runbook.end_in(connection, entry_id, outcome=None, detail={"result": "ok"})
    await setup.handler.serve(job)

    assert (await setup.gate(entry_id)).closed_as == "ended"
    assert await setup.status(entry_id) is Status.COMPLETED


async def test_the_first_task_of_an_instance_whose_starter_died_pins_it(setup: GateSetup, engine: MemoryEngine) -> None:
    entry_id = await setup.ask()
    await setup.database.execute(
        "UPDATE verbworker.workflow_instance SET instance_key = NULL, status = 'starting' WHERE entry_id = $1", entry_id
    )
    job = await setup.task()
    await setup.handler.serve(job)
    row = await setup.database.fetchrow(
        "SELECT instance_key FROM verbworker.workflow_instance WHERE entry_id = $1", entry_id
    )

    assert row is not None
    assert row["instance_key"] == job.process_instance_key


@pytest.mark.req("WAIT-05")
async def test_a_gate_whose_task_was_gone_before_it_was_parked_is_closed_at_once(
    setup: GateSetup, engine: MemoryEngine
) -> None:
    entry_id = await setup.ask()
    job = await setup.task()
    await engine.cancel(
        engine.jobs[job.key].job.process_instance_key
    )  # its time was up while the delivery was on its way
    await setup.handler.serve(job)

    assert (await setup.gate(entry_id)).closed_as == "gone"
    assert (await setup.kinds(entry_id))[-2:] == [Kind.PARKED, Kind.GATE_GONE]
    assert await setup.status(entry_id) is Status.EXECUTING


async def test_a_handler_whose_database_is_away_asks_for_the_task_again_soon(
    dsn: str, engine: MemoryEngine, setup: GateSetup
) -> None:
    entry_id = await setup.ask()
    job = await setup.task()
    async with Database(dsn, size=1) as away, opened(away, engine, review_registry(gate=AT_TASK_1)) as other:
        await away.__aexit__(None, None, None)
        await other.handler.serve(job)
    engine.advance(3)
    await setup.handler.serve(await setup.task(wait_ms=0))

    assert (await setup.gate(entry_id)).closed_at is None


# ---- deciding ----------------------------------------------------------------------------------------------------


@pytest.mark.req("WAIT-02", "WAIT-04", "X-42", "PRX-34", "COR-08")
async def test_a_decision_is_kept_and_lets_the_work_go_on(setup: GateSetup, engine: MemoryEngine) -> None:
    gate = await setup.parked()
    decided = await setup.decide(gate)

    assert decided.verdict is not None
    made = decided.verdict
    assert (made.decision, made.reason, made.by, made.answer) == ("approve", "all is well", "anna", "completed")
    assert (decided.closed_as, engine.jobs[job_of(gate)].completions) == ("decided", 1)
    assert engine.jobs[job_of(gate)].variables == {}
    assert (await setup.kinds(gate.entry_id))[-3:] == [Kind.PARKED, Kind.GATE_DECIDED, Kind.RESUMED]
    assert await setup.status(gate.entry_id) is Status.EXECUTING


@pytest.mark.req("PRX-34", "X-42", "X-26")
async def test_the_second_decision_is_told_who_decided_what_and_when(setup: GateSetup) -> None:
    gate = await setup.parked()
    decided = await setup.decide(gate)
    assert decided.verdict is not None
    when = f"{decided.verdict.at:%Y-%m-%d %H:%M:%S} UTC"

    with pytest.raises(RequestConflict, match=f"review of entry .* is decided: anna said 'approve' at {when}"):
        await setup.decide(gate, "reject", by="bob")


async def all_at_once(dsn: str, gate: HumanGate, acts: Sequence[Awaitable[HumanGate]]) -> list[object]:
    """Everybody stands before the gate when it is let go."""
    async with Database(dsn, size=1) as holder, Database(dsn, size=1) as watch:
        async with holder.transaction() as connection:
            await GateStore(holder).hold_in(connection, gate.token_id, TENANT)
            waiting = asyncio.gather(*acts, return_exceptions=True)
            await eventually(lambda: _all_wait(watch, len(acts)))
        return list(await waiting)


async def _all_wait(watch: Database, wanted: int) -> bool:
    row = await watch.fetchrow(
        "SELECT count(*) AS held FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return row is not None and row["held"] >= wanted


@pytest.mark.req("PRX-34", "X-42")
async def test_of_many_who_decide_at_the_same_moment_exactly_one_wins(
    dsn: str, setup: GateSetup, engine: MemoryEngine
) -> None:
    gate = await setup.parked()
    people = [f"person-{number}" for number in range(6)]
    answers = await all_at_once(dsn, gate, [setup.decide(gate, by=by) for by in people])
    won = [by for by, answer in zip(people, answers, strict=True) if isinstance(answer, HumanGate)]
    refused = [str(answer) for answer in answers if isinstance(answer, RequestConflict)]

    assert len(won) == 1
    assert [words for words in refused if f"{won[0]} said 'approve'" in words] == refused
    assert (len(refused), engine.jobs[job_of(gate)].completions) == (5, 1)
    assert (await setup.kinds(gate.entry_id)).count(Kind.GATE_DECIDED) == 1


@pytest.mark.req("PRX-34")
async def test_the_database_itself_keeps_a_second_decision_out(setup: GateSetup) -> None:
    gate, store = await setup.parked(), GateStore(setup.database)
    async with setup.database.transaction() as connection:
        first = await store.decide_in(connection, gate.token_id, "approve", "", "anna", send_within=None)
        second = await store.decide_in(connection, gate.token_id, "reject", "", "bob", send_within=None)

    assert (first is not None, second) == (True, None)


@pytest.mark.req("PRX-34")
@pytest.mark.parametrize(
    ("decision", "reason", "by", "sentence"),
    [
        ("aprove", "", "anna", "review takes approve, reject, and not 'aprove'"),
        ("", "", "anna", "the decision is empty"),
        ("  ", "", "anna", "the decision is empty"),
        ("a" * 201, "", "anna", "the decision is longer than 200 characters"),
        ("approve", "r" * 4001, "anna", "the reason is longer than 4000 characters"),
        ("approve", "nul \x00", "anna", "the reason holds characters that cannot be kept"),
        ("approve", "half \ud800", "anna", "the reason holds characters that cannot be kept"),
        ("approve", "", " ", "the name of who decides is empty"),
    ],
)
async def test_a_decision_that_the_gate_does_not_take_changes_nothing(
    setup: GateSetup, decision: str, reason: str, by: str, sentence: str
) -> None:
    gate = await setup.parked()
    with pytest.raises(InvocationInvalid) as caught:
        await setup.gates.decide(gate.token_id, decision, reason=reason, by=by, tenant_id=TENANT)

    assert str(caught.value) == sentence
    assert await setup.gate(gate.entry_id) == gate


@pytest.mark.req("WAIT-05")
@pytest.mark.parametrize(
    ("closed_as", "why"),
    [
        ("fired", "its time was up"),
        ("ended", "the entry has ended"),
        ("gone", "the process no longer waited there"),
        ("resumed", "the process continued without it"),
    ],
)
async def test_a_gate_that_is_closed_says_so(setup: GateSetup, closed_as: str, why: str) -> None:
    gate = await setup.parked()
    async with setup.database.transaction() as connection:
        await setup.starts.runbook.unpark_in(connection, gate.engine_id, gate.element_instance_key, closed_as=closed_as)

    with pytest.raises(RequestConflict, match=f"review of entry {gate.entry_id} closed at .* UTC: {why}"):
        await setup.decide(gate)


@pytest.mark.req("WAIT-05")
async def test_a_cancelled_entry_takes_its_gate_with_it(setup: GateSetup) -> None:
    gate = await setup.parked()
    async with setup.database.transaction() as connection:
        await setup.starts.runbook.end_in(connection, gate.entry_id, outcome=None, detail={}, kind=Kind.CANCELLED)

    with pytest.raises(RequestConflict, match="the entry has ended"):
        await setup.decide(gate)
    assert await setup.gates.list(TENANT) == []


async def test_a_decision_and_the_end_of_its_entry_may_meet(setup: GateSetup) -> None:
    gates = [await setup.parked() for _ in range(8)]

    async def cancel(entry_id: UUID) -> bool:
        async with setup.database.transaction() as connection:
            return await setup.starts.runbook.end_in(connection, entry_id, outcome=None, detail={}, kind=Kind.CANCELLED)

    answers = await asyncio.gather(
        *(setup.decide(gate) for gate in gates), *(cancel(gate.entry_id) for gate in gates), return_exceptions=True
    )

    assert [answer for answer in answers if isinstance(answer, BaseException | bool)] != []
    assert {type(a) for a in answers if isinstance(a, BaseException)} <= {RequestConflict}
    assert {await setup.status(gate.entry_id) for gate in gates} == {Status.CANCELLED}


@pytest.mark.req("PRX-33")
async def test_a_gate_is_found_by_its_entry_and_its_name(setup: GateSetup) -> None:
    gate = await setup.parked()
    await setup.gates.decide(gate.entry_id, "reject", by="bob", tenant_id=TENANT, gate=GATE)

    assert (await setup.gate(gate.entry_id)).closed_as == "decided"


async def test_a_gate_that_is_not_there_is_not_found(setup: GateSetup) -> None:
    gate = await setup.parked()

    for where, name in ((uuid4(), None), (gate.entry_id, "other"), (gate.token_id, "other")):
        with pytest.raises(NotFound, match="the tenant tests has no gate"):
            await setup.gates.decide(where, "approve", by="anna", tenant_id=TENANT, gate=name)


async def test_another_tenant_sees_no_gate(setup: GateSetup) -> None:
    gate = await setup.parked()

    for act in (setup.gates.claim, setup.gates.release):
        with pytest.raises(NotFound):
            await act(gate.token_id, "bob", "other")
    with pytest.raises(NotFound):
        await setup.gates.decide(gate.entry_id, "approve", by="bob", tenant_id="other")
    assert await setup.gates.list("other") == []


async def test_an_entry_at_several_gates_asks_which_one(setup: GateSetup) -> None:
    gate = await setup.parked()
    job = replace(setup.engine.jobs[job_of(gate)].job, element_instance_key=77)  # type: ignore[attr-defined]
    await setup.handler.serve(job)

    with pytest.raises(RequestConflict, match="waits at several gates, name one of them: review"):
        await setup.gates.decide(gate.entry_id, "approve", by="anna", tenant_id=TENANT)


# ---- claims ------------------------------------------------------------------------------------------------------


@pytest.mark.req("WAIT-01", "WAIT-02")
async def test_a_second_person_is_told_who_claimed_a_gate(setup: GateSetup) -> None:
    gate = await setup.parked()
    claimed = await setup.gates.claim(gate.token_id, "anna", TENANT)
    await setup.gates.claim(gate.entry_id, "anna", TENANT)

    assert (claimed.claimed_by, (await setup.kinds(gate.entry_id)).count(Kind.GATE_CLAIMED)) == ("anna", 1)
    for act in (setup.gates.claim(gate.token_id, "bob", TENANT), setup.decide(gate, by="bob")):
        with pytest.raises(RequestConflict, match=r"is claimed by anna since \d{4}-.* UTC; it can be released"):
            await act


@pytest.mark.req("WAIT-02")
async def test_of_many_who_take_a_gate_at_the_same_moment_one_has_it(dsn: str, setup: GateSetup) -> None:
    gate = await setup.parked()
    answers = await all_at_once(dsn, gate, [setup.gates.claim(gate.token_id, f"p-{n}", TENANT) for n in range(6)])

    assert sum(isinstance(answer, RequestConflict) for answer in answers) == 5


@pytest.mark.req("WAIT-01")
async def test_a_gate_that_was_given_back_is_anybodys(setup: GateSetup) -> None:
    gate = await setup.parked()
    await setup.gates.claim(gate.token_id, "anna", TENANT)
    released = await setup.gates.release(gate.token_id, "carl", TENANT)
    await setup.gates.release(gate.token_id, "carl", TENANT)
    await setup.decide(gate, by="bob")

    assert released.claimed_by is None
    told = [event.detail for event in await setup.events(gate.entry_id) if event.kind is Kind.GATE_RELEASED]
    assert [(detail["by"], detail["had"]) for detail in told] == [("carl", "anna")]


# ---- telling the engine ------------------------------------------------------------------------------------------


@pytest.mark.req("X-42", "PRX-34")
async def test_a_decision_made_while_the_engine_is_away_is_told_when_it_is_back(
    setup: GateSetup, engine: MemoryEngine
) -> None:
    gate = await setup.parked()
    engine.drop("complete", times=2)
    decided = await setup.decide(gate)
    assert decided.verdict is not None
    assert (decided.closed_as, decided.verdict.answer) == ("decided", None)
    await setup.due()
    assert await setup.relay.drain() == 1  # in vain once more
    assert await setup.relay.drain() == 0  # and not at once again
    await setup.due()
    await setup.relay.drain()

    told = (await setup.gate(gate.entry_id)).verdict
    assert told is not None
    assert (told.answer, engine.jobs[job_of(gate)].completions) == ("completed", 1)
    assert await setup.relay.drain() == 0


@pytest.mark.req("X-42")
async def test_a_decision_made_without_an_engine_is_told_by_the_relay(setup: GateSetup, engine: MemoryEngine) -> None:
    gate = await setup.parked()
    await setup.without_engine.decide(gate.token_id, "approve", by="anna", tenant_id=TENANT)
    assert engine.jobs[job_of(gate)].completions == 0
    await setup.relay.drain()

    assert engine.jobs[job_of(gate)].completions == 1


@pytest.mark.req("X-42")
async def test_a_task_that_comes_again_after_its_decision_is_completed(setup: GateSetup, engine: MemoryEngine) -> None:
    gate = await setup.parked()
    await setup.without_engine.decide(gate.token_id, "approve", by="anna", tenant_id=TENANT)
    engine.time_out(job_of(gate))
    await setup.handler.serve(await setup.task())

    told = (await setup.gate(gate.entry_id)).verdict
    assert told is not None
    assert (told.answer, engine.jobs[job_of(gate)].completions) == ("completed", 1)
    assert await setup.relay.drain() == 0


@pytest.mark.req("X-42")
async def test_a_lost_answer_is_not_taken_for_a_decision_that_came_too_late(
    setup: GateSetup, engine: MemoryEngine
) -> None:
    gate = await setup.parked()
    engine.lose_answer("complete")
    await setup.decide(gate)
    await setup.due()
    await setup.relay.drain()

    told = (await setup.gate(gate.entry_id)).verdict
    assert told is not None
    assert (told.answer, engine.jobs[job_of(gate)].completions) == ("unsure", 1)
    assert Kind.GATE_GONE not in await setup.kinds(gate.entry_id)


@pytest.mark.req("WAIT-05")
async def test_a_decision_whose_task_is_gone_says_so(setup: GateSetup, engine: MemoryEngine) -> None:
    gate = await setup.parked()
    await engine.cancel(engine.jobs[job_of(gate)].job.process_instance_key)
    decided = await setup.decide(gate)

    assert decided.verdict is not None
    assert decided.verdict.answer == "gone"
    (*_, gone) = await setup.events(gate.entry_id)
    assert (gone.kind, gone.detail) == (Kind.GATE_GONE, {"gate": GATE, "decision": "approve", "by": "anna"})
    heard = await GateStore(setup.database).heard(gate.instance_uid, decisions=True, messages=True)
    assert heard == ((), ())


async def test_two_relays_tell_the_engine_once(setup: GateSetup, engine: MemoryEngine, database: Database) -> None:
    gates = [await setup.parked() for _ in range(10)]
    for gate in gates:
        await setup.without_engine.decide(gate.token_id, "approve", by="anna", tenant_id=TENANT)
    told = await asyncio.gather(*(setup.relay.drain() for _ in range(4)))

    assert sum(told) == 10
    assert [engine.jobs[job_of(gate)].completions for gate in gates] == [1] * 10


async def test_the_relay_runs_by_itself(database: Database, engine: MemoryEngine, setup: GateSetup) -> None:
    gate = await setup.parked()
    await Gates(database).decide(gate.token_id, "approve", by="anna", tenant_id=TENANT)
    relay = asyncio.ensure_future(GateRelay(database, engine, every=0.01).service.run())
    async with asyncio.timeout(20):
        await engine.until(lambda: engine.jobs[job_of(gate)].completions == 1)
    relay.cancel()
    with pytest.raises(asyncio.CancelledError):
        await relay


# ---- silence -----------------------------------------------------------------------------------------------------


async def test_a_gate_of_which_the_engine_is_silent_is_asked_after(setup: GateSetup, engine: MemoryEngine) -> None:
    alive, lost, fresh = [await setup.parked() for _ in range(3)]
    for gate in (alive, lost):
        await setup.change(gate, "seen_at = seen_at - interval '1 hour'")
    await engine.cancel(engine.jobs[job_of(lost)].job.process_instance_key)
    await engine.cancel(engine.jobs[job_of(fresh)].job.process_instance_key)

    assert await setup.relay.probe() == 1
    states = [(await setup.gate(gate.entry_id)).closed_as for gate in (alive, lost, fresh)]
    assert states == [None, "gone", None]
    assert (await setup.kinds(lost.entry_id))[-1] is Kind.GATE_GONE
    assert await setup.relay.probe() == 0


async def test_a_silent_engine_closes_no_gate(setup: GateSetup, engine: MemoryEngine) -> None:
    gate = await setup.parked()
    await setup.change(gate, "seen_at = seen_at - interval '1 hour'")
    engine.drop("extend")

    assert await setup.relay.probe() == 0
    assert (await setup.gate(gate.entry_id)).closed_at is None


# ---- what a verb hears -------------------------------------------------------------------------------------------


@pytest.mark.req("WAIT-04", "PRX-34")
async def test_the_next_verb_hears_the_decision(dsn: str, setup: GateSetup, engine: MemoryEngine) -> None:
    gate = await setup.parked()
    await setup.decide(gate)
    async with rooms.opened(dsn, review_registry(gate=AT_TASK_1), engine=engine) as room:  # type: ignore[arg-type]
        job = await room.work("hall.after")
        frame = await room.frame(job)

    assert frame.output is not None
    assert b'"heard":["anna: review approve (all is well)"]' in frame.output


async def test_a_verb_reads_what_was_filled_in_with_a_decision(
    dsn: str, database: Database, engine: MemoryEngine
) -> None:
    asked = {"sum": GateInput("sum", "amount", required=True), "sure": GateInput("sure", "yes/no")}
    registry = review_registry(gate=Gate(GATE, "task_1", ("approve",), inputs=asked))
    async with opened(database, engine, registry) as setup:
        gate = await setup.parked()
        with pytest.raises(InvocationInvalid, match="the input sum is missing"):
            await setup.decide(gate)
        given = {"sum": "12.50", "sure": "yes"}
        made = await setup.gates.decide(gate.token_id, "approve", inputs=given, by="anna", tenant_id=TENANT)
        (event,) = [one for one in await setup.events(gate.entry_id) if one.kind is Kind.GATE_DECIDED]
        async with rooms.opened(dsn, registry, engine=engine) as room:  # type: ignore[arg-type]
            frame = await room.frame(await room.work("hall.after"))

    assert made.verdict is not None
    assert made.verdict.inputs == event.detail["inputs"] == {"sum": "12.50", "sure": True}
    assert frame.output is not None
    assert b'"sum: 12.50","sure: True"' in frame.output


@pytest.mark.req("WAIT-04")
async def test_messages_are_heard_as_the_inbox_tells_them(setup: GateSetup) -> None:
    gate, inbox = await setup.parked(), Inbox(setup.database, engine_id="memory", owner=uuid4())
    for number in (1, 2):
        message = Message(
            message_name="papers",
            message_id=f"m-{number}",
            correlation_key="k",
            tenant_id=TENANT,
            payload={"n": number},
        )
        await inbox.receive(message, sent_by="tests", ttl=timedelta(hours=1))
        (claimed,) = await inbox.claim(1, names=("papers",), claim_for=timedelta(seconds=30))
        await inbox.aim(claimed, gate.instance_uid)
        await inbox.record_send(claimed)
        async with setup.database.transaction() as connection:
            await inbox.consume_in(connection, gate.instance_uid, "papers", "k")
    store = GateStore(setup.database)
    _, heard = await store.heard(gate.instance_uid, decisions=True, messages=True)

    assert [message.payload for message in heard] == [{"n": 1}, {"n": 2}]
    assert await store.heard(gate.instance_uid, decisions=True, messages=False) == ((), ())


# ---- leases ------------------------------------------------------------------------------------------------------


async def test_a_decision_at_a_leased_task_is_sent_by_its_next_delivery(database: Database) -> None:
    engine = LeasingEngine()
    engine.line("hall-review", [USER_TASK, "hall.after"])
    async with opened(database, engine, review_registry(gate=AT_TASK_1)) as setup:
        gate = await setup.parked()
        decided = await setup.decide(gate)

        assert decided.verdict is not None
        assert decided.verdict.answer is None
        assert engine.refused == [("complete", gate.job_key)]

        engine.advance(1)
        await setup.handler.serve(await setup.task())

        told = (await setup.gate(gate.entry_id)).verdict
        assert told is not None
        assert told.answer is not None
        assert engine.jobs[job_of(gate)].completions == 1
