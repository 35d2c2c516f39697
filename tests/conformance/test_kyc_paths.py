"""The ways a KYC case can go, on each engine and a real database."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from tests.support.databases import blocked, plain
from tests.support.kyc import PASSPORT
from tests.support.kyc_people import resolve_incident
from tests.support.kyc_provider import Provider
from tests.support.kyc_world import TENANT, World
from verbs.kyc.review import HEAD
from verbworker.errors import RequestConflict
from verbworker.runbook.event import Kind, Status, Wait
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.upkeep.releases import Release, Releases

UNDONE = ["kyc.withdraw-requests", "kyc.close-case-record"]


async def at_review(world: World, **args: str) -> UUID:
    """A case that waits for its reviewer."""
    entry_id = await world.ask(**args)
    await world.send(entry_id)
    await world.waiting(entry_id, Wait.HUMAN_GATE)
    return entry_id


async def withdrawn(world: World, entry_id: UUID) -> list[bool]:
    rows = await world.database.fetch(
        "SELECT withdrawn_at IS NOT NULL AS gone FROM kyc_document_request WHERE case_id = $1", entry_id
    )
    return [row["gone"] for row in rows]


# ---- decisions ------------------------------------------------------------------------------------------------------


async def test_an_approved_case_keeps_what_was_done(world: World) -> None:
    async with world.working():
        entry_id = await at_review(world)
        await world.decide(entry_id, "approve")
        entry = await world.ended(entry_id)

    assert entry.status is Status.COMPLETED
    assert await world.undone(entry_id) == []
    case = await world.case(entry_id)
    assert (case["decision"], case["decided_by"], case["closed_at"]) == ("approved", "ada", None)
    assert await withdrawn(world, entry_id) == [False, False]


@pytest.mark.req("CMP-01", "CMP-02", "CMP-03", "CMP-04")
async def test_a_rejected_case_is_undone_youngest_step_first(world: World) -> None:
    async with world.working():
        entry_id = await at_review(world)
        await world.decide(entry_id, "reject")
        entry = await world.ended(entry_id)

    assert await world.undone(entry_id) == UNDONE
    assert entry.status is Status.FAILED
    case = await world.case(entry_id)
    assert (case["decision"], case["closed_at"] is not None) == ("rejected", True)
    assert await withdrawn(world, entry_id) == [True, True]
    assert dict((await world.resources.runbook.verify(TENANT, entry_id)).broken) == {}


async def test_a_second_decision_is_refused_with_who_and_when(world: World) -> None:
    async with world.working():
        entry_id = await at_review(world)
        await world.decide(entry_id, "approve", by="ada")
        with pytest.raises(RequestConflict) as refused:
            await world.gates.decide(entry_id, "reject", by="bob", tenant_id=TENANT)
        entry = await world.ended(entry_id)

    assert "ada" in str(refused.value)
    assert entry.status is Status.COMPLETED


# ---- a way back that nobody chose -----------------------------------------------------------------------------------


async def test_a_sanctions_hit_ends_the_wait_for_documents_and_undoes_the_case(
    world: World, provider: Provider
) -> None:
    provider.listed.add("Evil Corp")
    provider.answers += [(503, b"")]  # late enough for the documents to be awaited
    async with world.working():
        entry_id = await world.ask(entity="Evil Corp")
        entry = await world.ended(entry_id)

    assert entry.status is Status.FAILED
    assert await world.undone(entry_id) == UNDONE
    assert await world.resources.runbook.waits(entry_id) == []
    assert (await world.case(entry_id))["closed_at"] is not None


# ---- time -----------------------------------------------------------------------------------------------------------


async def due(world: World, entry_id: UUID) -> timedelta | None:
    """How long after it began the open gate of a case is due by its timer, as far as that is known."""
    row = await world.database.fetchrow(
        "SELECT due_at - opened_at AS after FROM verbworker.parked_token"
        " WHERE entry_id = $1 AND kind = 'human_gate' AND closed_at IS NULL",
        entry_id,
    )
    assert row is not None
    return row["after"]  # type: ignore[no-any-return]  # asyncpg ships no types


async def test_a_review_is_due_when_the_flag_says_so(world: World) -> None:
    async with world.working():
        entry_id = await at_review(world, **{"review-within": "P3D"})

        after = await due(world, entry_id)

    assert after is not None
    assert abs(after - timedelta(days=3)) < timedelta(minutes=1)


@pytest.mark.req("WAIT-03", "WAIT-05", "EVT-04")
async def test_a_review_that_takes_too_long_is_escalated_and_stays_open(world: World) -> None:
    async with world.working():
        entry_id = await at_review(world, **{"review-within": "PT1S"})
        await world.step(entry_id, "kyc.escalate")
        escalated = await world.case(entry_id)
        parked = await world.entry(entry_id)
        await world.decide(entry_id)
        entry = await world.ended(entry_id)

    assert (escalated["escalated_to"], escalated["decision"]) == (HEAD, None)
    assert parked.status is Status.PARKED
    assert entry.status is Status.COMPLETED
    kinds = await world.kinds(entry_id)
    assert kinds.count("TimerFired") == 1


# ---- documents ------------------------------------------------------------------------------------------------------


@pytest.mark.req("MSG-04")
async def test_documents_that_come_early_are_kept(world: World) -> None:
    entry_id = await world.ask()
    await world.send(entry_id)
    async with world.working():
        await world.decide(entry_id)
        entry = await world.ended(entry_id)

    assert entry.status is Status.COMPLETED
    assert (await world.told(entry_id, Kind.MESSAGE_RECEIVED)).detail["correlation_key"] == str(entry_id)


async def test_documents_that_come_late_are_waited_for(world: World) -> None:
    async with world.working():
        entry_id = await world.ask()
        await world.step(entry_id, "kyc.screen-sanctions")
        await world.waiting(entry_id, Wait.EXTERNAL_SIGNAL)
        await world.send(entry_id)
        await world.decide(entry_id)
        entry = await world.ended(entry_id)

    assert entry.status is Status.COMPLETED
    assert "kyc.receive-documents" in await world.done(entry_id)


async def test_documents_that_are_sent_twice_arrive_once(world: World) -> None:
    async with world.working():
        entry_id = await world.ask()
        first = await world.send(entry_id, message_id="m-1")
        again = await world.send(entry_id, message_id="m-1")
        with pytest.raises(RequestConflict):
            await world.send(entry_id, [PASSPORT], message_id="m-1")
        await world.decide(entry_id)
        await world.ended(entry_id)

    assert (first.is_new, again.is_new) == (True, False)
    kinds = await world.kinds(entry_id)
    assert kinds.count("MessageReceived") == 1
    assert (await world.done(entry_id)).count("kyc.receive-documents") == 1


@pytest.mark.req("MSG-07", "MSG-08", "EVT-06")
async def test_documents_under_a_wrong_key_are_redelivered_by_a_person(world: World) -> None:
    async with world.working():
        entry_id = await world.ask()
        await world.waiting(entry_id, Wait.EXTERNAL_SIGNAL)
        await world.send(entry_id, key="no-such-case", ttl=timedelta(seconds=1))
        letter = await world.letter(entry_id)
        parked = await world.entry(entry_id)
        await world.letters.redeliver(letter.letter_id, TENANT, by="eve", reason="a typo", key=str(entry_id))
        await world.decide(entry_id)
        entry = await world.ended(entry_id)

    assert (letter.correlation_key, letter.code) == ("no-such-case", "no_case")
    assert parked.status is Status.PARKED
    assert entry.status is Status.COMPLETED
    failed = await world.told(entry_id, Kind.CORRELATION_FAILED)
    assert failed.detail["message_name"] == "kyc.documents-received"


# ---- a person steps in ----------------------------------------------------------------------------------------------


@pytest.mark.req("EVT-14")
async def test_an_incident_is_mended_and_the_case_goes_on(world: World, provider: Provider) -> None:
    provider.refusing = 401
    async with world.working():
        entry_id = await world.ask()
        await world.send(entry_id)
        await world.waiting(entry_id, Wait.INCIDENT)
        raised = await world.told(entry_id, Kind.INCIDENT_RAISED)
        held = await world.entry(entry_id)
        provider.refusing = None
        await release(world, raised.detail["job_key"])
        await world.decide(entry_id)
        entry = await world.ended(entry_id)

    assert (raised.detail["verb"], raised.detail["code"]) == ("kyc.screen-sanctions", "ScreeningRefused")
    assert held.status is Status.PARKED
    assert entry.status is Status.COMPLETED
    kinds = await world.kinds(entry_id)
    assert kinds.index("IncidentRaised") < kinds.index("IncidentResolved") < kinds.index("GateDecided")
    assert len(provider.keys_for("Allianz GmbH")) == 1


async def release(world: World, job_key: int) -> None:
    """Let a held job run again, as an operator does: in the database first, then in the engine."""
    engine_id = world.settings.cluster()
    async with world.new_engine() as engine:
        frames = Frames(world.database, engine_id=engine_id, owner=uuid4())
        releases = Releases(frames, Histories(world.database, engine_id=engine_id), None)
        answer = await releases.release(Release(job_key, "eve", "the contract was renewed", 3))
        assert answer.done, answer.sentence
        await resolve_incident(engine, job_key)


@pytest.mark.req("CMP-06", "CMP-07", "CMP-08", "EVT-14")
async def test_a_case_that_is_cancelled_while_it_waits_stops_and_keeps_what_was_done(world: World) -> None:
    async with world.working():
        entry_id = await at_review(world)
        key = await world.instance_key(entry_id)
        async with world.new_engine() as engine:
            cancelling = Cancellation(world.database, world.resources.dispatches, engine)
            entry = await cancelling.cancel(entry_id, tenant_id=TENANT, by="ann", reason="the customer left")
            is_alive = await engine.alive(key)
        with pytest.raises(RequestConflict):
            await world.gates.decide(entry_id, "approve", by="ada", tenant_id=TENANT)

    assert (entry.status, is_alive) == (Status.CANCELLED, False)
    kinds = await world.kinds(entry_id)
    assert kinds[-2:] == ["CancelRequested", "Cancelled"]
    assert await world.undone(entry_id) == []
    assert (await world.case(entry_id))["closed_at"] is None
    assert set((await world.told(entry_id, Kind.CANCELLED)).detail["done"]) == set(await world.done(entry_id))


async def test_a_hit_beside_a_request_that_is_just_being_sent_leaves_nothing_open(
    world: World, provider: Provider
) -> None:
    names = [f"Evil Corp {number}" for number in range(30)]
    provider.listed.update(names)
    async with world.working():
        ids = [await world.ask(entity=name) for name in names]
        ended = [await world.ended(entry_id) for entry_id in ids]

    assert {entry.status for entry in ended} == {Status.FAILED}
    cases = await world.database.fetch("SELECT closed_at FROM kyc_case")
    requests = await world.database.fetch("SELECT withdrawn_at FROM kyc_document_request")
    assert len(cases) == len(names)
    assert [row for row in cases if row["closed_at"] is None] == []
    assert [row for row in requests if row["withdrawn_at"] is None] == []
    assert dict((await world.resources.runbook.verify(TENANT)).broken) == {}


async def test_a_request_that_is_finished_after_the_hit_is_undone_too(world: World, provider: Provider) -> None:
    provider.listed.add("Evil Corp")
    async with plain(world.dsn) as somebody, world.working():
        async with somebody.transaction():
            await somebody.execute("LOCK TABLE kyc_document_request IN SHARE MODE")
            entry_id = await world.ask(entity="Evil Corp")
            await world.step(entry_id, "kyc.screen-sanctions")
            # The request waits for the table, and whoever closes the case waits for the request.
            await blocked(world.dsn, 2)
        entry = await world.ended(entry_id)

    assert entry.status is Status.FAILED
    assert sorted(await world.undone(entry_id)) == sorted(UNDONE)
    assert await withdrawn(world, entry_id) == [True, True]
    assert (await world.case(entry_id))["closed_at"] is not None
