"""The seam, proven: `kyc.open-case` on each engine and a real database, a sentence of the plan in each test."""

from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.entries import entries_of
from tests.support.kyc_people import forgetful
from tests.support.kyc_provider import Provider
from tests.support.kyc_world import PAPERS, TENANT, World, opened_world
from tests.support.models import line
from verbs import registry
from verbworker.engine.protocol import Resource
from verbworker.payload.envelope import unpack
from verbworker.runbook.event import Kind, Status, Wait, describe
from verbworker.work.starts.router import Caller

STEPS = [
    "kyc.create-case-record",
    "kyc.request-documents",
    "kyc.screen-sanctions",
    "kyc.receive-documents",
    "kyc.assign-reviewer",
    "kyc.record-review-decision",
]
# What only somebody who draws processes would say.
JARGON = (
    "bpmn", "process", "gateway", "token", "zeebe", "camunda", "job", "listener", "boundary", "subprocess", "element",
    "user task", "service task", "workflow", "instance", "engine",
)  # fmt: skip


async def approved(world: World, **args: str) -> UUID:
    """A case that went all the way through."""
    entry_id = await world.ask(**args)
    await world.send(entry_id)
    await world.decide(entry_id)
    await world.ended(entry_id)
    return entry_id


# ---- 1. split into sub-verbs ----------------------------------------------------------------------------------------


@pytest.mark.req("REG-12", "REG-13")
def test_the_workflow_verb_is_made_of_direct_verbs() -> None:
    workflow = registry.workflows["kyc.open-case"]

    assert set(STEPS) <= set(workflow.sub_verbs)
    assert all(registry.find(name) is not None for name in (*workflow.sub_verbs, *workflow.compensation.values()))


# ---- 4. the data round-trip -----------------------------------------------------------------------------------------


@pytest.mark.req("REG-23", "PAY-01", "EVT-07", "EVT-11", "TST-01")
async def test_the_payload_survives_six_steps_and_a_person(world: World) -> None:
    async with world.working():
        entry_id = await approved(world, entity="Züri Käse & Söhne “GmbH” 株式会社")

    data = unpack(await world.payload(entry_id)).data
    assert data["entity"] == "Züri Käse & Söhne “GmbH” 株式会社"
    assert data["case_id"] == str(entry_id)
    assert data["documents"]["received"] == list(PAPERS)
    assert data["screening"]["lists"] == 7
    assert (data["reviewer"], data["review"]["decision"], data["review"]["by"]) == ("review-desk", "approved", "ada")


@pytest.mark.req("TST-02")
async def test_the_hash_holds_at_every_boundary(world: World) -> None:
    async with world.working():
        entry_id = await approved(world)

    frames = await world.frames(entry_id)
    known = {bytes(frame["output_hash"]) for frame in frames}
    first = [frame for frame in frames if bytes(frame["input_hash"]) not in known]
    assert [frame["verb"] for frame in frames if frame in first] == ["kyc.create-case-record"]
    for frame in frames:
        assert sha256(frame["output"]).digest() == bytes(frame["output_hash"])
        assert unpack(bytes(frame["output"])).schema == "kyc.open-case/v1"
    final = await world.payload(entry_id)
    assert sha256(final).digest() == bytes(frames[-1]["output_hash"])


@pytest.mark.req("PAY-09", "EVT-14", "TST-02")
async def test_a_payload_that_somebody_touched_stops_before_the_next_step(world: World) -> None:
    async with world.working():
        entry_id = await world.ask()
        await world.send(entry_id)
        await world.waiting(entry_id, Wait.HUMAN_GATE)
        await tamper(world, entry_id)
        await world.decide(entry_id)
        raised = await world.told(entry_id, Kind.INCIDENT_RAISED)

    assert (raised.detail["verb"], raised.detail["class"]) == ("kyc.record-review-decision", "PermanentContract")
    assert (await world.case(entry_id))["decision"] is None


async def tamper(world: World, entry_id: UUID) -> None:
    """Change one letter of the payload in the engine, as somebody with its admin tools can."""
    content = (await world.payload(entry_id)).decode().replace("Allianz", "Allianx")
    await world.set_variables(entry_id, {"domain_payload": content})


@pytest.mark.req("TST-03")
async def test_the_trail_tells_every_step_in_order(world: World) -> None:
    async with world.working():
        entry_id = await approved(world)

    trail = [step.verb for step in unpack(await world.payload(entry_id)).sub_verb_trail]
    assert sorted(trail) == sorted(STEPS)
    assert (trail[0], trail[-2:]) == (STEPS[0], STEPS[-2:])


@pytest.mark.req("PAY-11", "PAY-12", "TST-03")
async def test_the_trail_keeps_twenty_steps_and_the_runbook_keeps_all(world: World) -> None:
    verbs = ["kyc.create-case-record", *["kyc.assign-reviewer"] * 24]
    async with world.new_engine() as engine:
        await engine.deploy([Resource("long.bpmn", line("kyc-open-case", verbs))])
    async with world.working():
        entry_id = await world.ask()

        async def look() -> bool:
            return len(await world.done(entry_id)) == len(verbs)

        await world.until(entry_id, look)

    trail = unpack(await world.payload(entry_id)).sub_verb_trail
    assert [step.verb for step in trail] == ["kyc.assign-reviewer"] * 20
    assert await world.done(entry_id) == verbs


@pytest.mark.req("ORC-04", "WAIT-04", "TST-04")
@pytest.mark.parametrize(("decision", "undone"), [("approve", 0), ("reject", 2)])
async def test_a_flag_decides_which_way_it_goes(world: World, decision: str, undone: int) -> None:
    async with world.working():
        entry_id = await world.ask()
        await world.send(entry_id)
        await world.decide(entry_id, decision)
        await world.ended(entry_id)

    assert len(await world.undone(entry_id)) == undone
    payload, outputs = await world.payload(entry_id), [bytes(one["output"]) for one in await world.frames(entry_id)]
    # What came through the gateways is what the last verb before them wrote, byte for byte, and no flag is in it.
    assert payload in outputs
    assert b"orch_" not in payload


@pytest.mark.req("JOB-04", "JOB-05", "TST-05")
async def test_a_step_that_is_delivered_twice_is_done_once(
    dsn: str, engine: str, address: str, provider: Provider
) -> None:
    kind = "zeebe" if engine == "zeebe-rest" else engine
    async with opened_world(dsn, address, provider, engine=kind, engine_timeout=3, lease=3) as world:
        deaf = forgetful(world.settings, address)
        async with world.working(deaf):
            entry_id = await approved(world)
        frames, done = await world.frames(entry_id), await world.done(entry_id)

    (twice,) = [frame for frame in frames if frame["job_key"] in deaf.swallowed]
    assert twice["deliveries"] > 1
    assert {frame["runs"] for frame in frames} == {1}
    assert done == [frame["verb"] for frame in frames]


async def test_a_provider_that_was_busy_is_asked_again_under_the_same_key(world: World, provider: Provider) -> None:
    provider.answers += [(503, b""), (503, b"")]
    async with world.working():
        entry_id = await approved(world)

    assert len(provider.questions) == 3
    assert len(provider.keys_for("Allianz GmbH")) == 1
    assert "kyc.screen-sanctions" in await world.done(entry_id)


# ---- 5. the runbook -------------------------------------------------------------------------------------------------


@pytest.mark.req("REG-01", "REG-17", "EVT-17", "WAIT-07", "TST-06")
async def test_the_user_sees_one_step_in_their_own_words(world: World) -> None:
    caller = Caller(TENANT, "ann", request_key=uuid4().hex)
    asked = '(kyc.open-case :entity "Allianz GmbH" :case-type "periodic-review")'
    async with world.working():
        entry = await world.resources.router.invoke(asked, caller=caller)
        again = await world.resources.router.invoke(asked, caller=caller)

    assert entry.sentence == "Open KYC case for Allianz GmbH"
    assert (entry.status, entry.invocation) == (Status.EXECUTING, asked)
    assert again.entry_id == entry.entry_id
    assert [one.entry_id for one in await entries_of(world.database, TENANT)] == [entry.entry_id]


@pytest.mark.req("WAIT-01", "WAIT-06", "EVT-03", "EVT-09", "EVT-18", "COR-08", "TST-06")
async def test_the_step_parks_for_the_reviewer(world: World) -> None:
    async with world.working():
        entry_id = await world.ask()
        await world.send(entry_id)
        wait = await world.waiting(entry_id, Wait.HUMAN_GATE)
        entry = await world.entry(entry_id)

    assert (entry.status, wait.reason, wait.gate) == (Status.PARKED, "Awaiting reviewer", "review")


@pytest.mark.req("EVT-05", "MSG-10")
async def test_the_step_parks_for_documents(world: World) -> None:
    async with world.working():
        entry_id = await world.ask()
        wait = await world.waiting(entry_id, Wait.EXTERNAL_SIGNAL)
        entry = await world.entry(entry_id)

    assert (entry.status, wait.reason) == (Status.PARKED, "Awaiting documents")
    assert wait.message_name == "kyc.documents-received"


@pytest.mark.req("WAIT-04", "EVT-09", "TST-06")
async def test_the_step_resumes_when_the_reviewer_acts(world: World) -> None:
    async with world.working():
        entry_id = await approved(world)

    kinds = await world.kinds(entry_id)
    decided = kinds.index("GateDecided")
    assert kinds[decided:] == ["GateDecided", "Resumed", "StepCompleted", "ExecutionResult"]


@pytest.mark.req("EVT-01", "EVT-02", "EVT-07", "EVT-16", "COR-06", "COR-10", "VER-01", "VER-02", "TST-06")
async def test_the_step_completes_with_a_full_audit(world: World) -> None:
    async with world.working():
        entry_id = await approved(world)

    entry = await world.entry(entry_id)
    assert entry.status is Status.COMPLETED
    assert entry.outcome == {"case": str(entry_id), "decision": "approved", "decided_by": "ada"}
    assert (entry.process_id, entry.definition_key is not None) == ("kyc-open-case", True)
    assert sorted(await world.done(entry_id)) == sorted(STEPS)
    kinds = await world.kinds(entry_id)
    assert (kinds[0], kinds[-1]) == ("DurableTaskStarted", "ExecutionResult")
    verified = await world.resources.runbook.verify(TENANT, entry_id)
    assert (verified.events, dict(verified.broken)) == (len(kinds), {})


@pytest.mark.req("EVT-17", "TST-06")
async def test_the_user_never_reads_a_word_of_bpmn(world: World) -> None:
    async with world.working():
        ids = [await world.ask(entity=f"Customer {number}", **{"review-within": "PT1S"}) for number in range(2)]
        for entry_id, decision in zip(ids, ("approve", "reject"), strict=True):
            await world.send(entry_id)
            await world.told(entry_id, Kind.TIMER_FIRED)
            await world.decide(entry_id, decision)
            await world.ended(entry_id)

    for entry_id in ids:
        entry, events = await world.entry(entry_id), await world.events(entry_id)
        said = [entry.sentence, entry.invocation, *(describe(event) for event in events)]
        said += [str(event.detail["reason"]) for event in events if "reason" in event.detail]
        for words in said:
            assert not [word for word in JARGON if word in words.lower()], words


async def test_a_direct_verb_looks_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_startable", {"kyc.create-case-record"})
    caller = Caller(TENANT, "ann")
    asked = '(kyc.create-case-record :entity "Allianz GmbH" :case-type "onboarding")'

    direct = await world.resources.router.invoke(asked, caller=caller)
    async with world.working():
        durable = await world.entry(await approved(world))

    assert type(direct) is type(durable)
    assert (direct.status, durable.status) == (Status.COMPLETED, Status.COMPLETED)
    outcome: Any = direct.outcome
    assert outcome["case_id"] == str(direct.entry_id)
