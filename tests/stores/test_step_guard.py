"""The step guard on a real database: what a claim may do when other jobs of its step have frames."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest

from tests.support.frames import (
    ENGINE,
    FIRST,
    INCIDENT,
    RETRY,
    Place,
    claimed,
    make_delivery,
    make_job,
    opened,
    working,
)
from verbworker.errors import Fenced, PermanentContract, TransientInfrastructure
from verbworker.frame import Claim
from verbworker.job import Job
from verbworker.outcome import Completed
from verbworker.stores.frames import Frames
from verbworker.work.performance import JobVanished
from verbworker.work.step_guard import StepDone, StepGuard, StepMovedOn

_HASH = sha256(FIRST).digest()
_PLAIN = b"""<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" id="d" targetNamespace="t">
<bpmn:process id="kyc" isExecutable="true"><bpmn:startEvent id="start"/>
<bpmn:sequenceFlow id="a" sourceRef="start" targetRef="check"/><bpmn:serviceTask id="check"/>
</bpmn:process></bpmn:definitions>"""
_LOOP = _PLAIN.replace(
    b'<bpmn:serviceTask id="check"/>',
    b'<bpmn:serviceTask id="check"/><bpmn:sequenceFlow id="b" sourceRef="check" targetRef="check"/>',
)
_BRANCHES = _PLAIN.replace(
    b'<bpmn:sequenceFlow id="a" sourceRef="start" targetRef="check"/>',
    b'<bpmn:parallelGateway id="fork"/><bpmn:sequenceFlow id="a" sourceRef="start" targetRef="fork"/>'
    b'<bpmn:sequenceFlow id="b" sourceRef="fork" targetRef="check"/>'
    b'<bpmn:sequenceFlow id="c" sourceRef="fork" targetRef="beside"/><bpmn:serviceTask id="beside"/>',
)
_FORKED = _PLAIN.replace(
    b'<bpmn:sequenceFlow id="a" sourceRef="start" targetRef="check"/>',
    b'<bpmn:parallelGateway id="fork"/><bpmn:sequenceFlow id="a" sourceRef="start" targetRef="fork"/>'
    b'<bpmn:sequenceFlow id="b" sourceRef="fork" targetRef="check"/>'
    b'<bpmn:sequenceFlow id="c" sourceRef="fork" targetRef="check"/>',
)


class Guarded:
    """A place, its frames, and a guard that knows the model."""

    def __init__(self, place: Place, frames: Frames) -> None:
        self.place = place
        self.frames = frames
        self.guard = StepGuard.of(place.database, ENGINE)

    async def deploy(self, model: bytes) -> None:
        """Record what was deployed."""
        await self.place.database.execute(
            "INSERT INTO verbworker.process_deployment (engine_id, definition_key, process_id, version, verb, resource,"
            " authored_sha256, woven_sha256, woven, deployed_by) VALUES ($1, 7000, 'kyc', 1, 'kyc', 'kyc.bpmn',"
            " sha256($2), sha256($2), $2, 'tests')",
            ENGINE,
            model,
        )

    async def claim(self, key: int, **changes: Any) -> Claim:
        """Claim another job of the same step."""
        return await claimed(self.frames, self.place.delivery(key, **changes))

    async def admit(self, key: int, claim: Claim, *, at: int = 1, input_hash: bytes = _HASH) -> Claim | Completed:
        """Ask the guard."""
        return await self.guard.admit(self.job(key, at=at), claim, self.place.instance.instance_uid, input_hash)

    def job(self, key: int, *, at: int = 1) -> Job:
        """A delivery of another job of the same step."""
        return make_job(key, at=at)

    async def done(self, key: int) -> None:
        """Do the step under this key, heard by the engine."""
        await self.frames.pop_completed(self.place.verdict(await self.claim(key)))
        self.frames.acknowledge(key, "ok")
        await self.frames.flush()

    async def done_beside(self, key: int, *, base: bytes = FIRST) -> bytes:
        """Do a step of another element under this key; the payload that it made."""
        job = make_job(key, element_id="beside")
        delivery = make_delivery(job, self.place.instance, input_hash=sha256(base).digest())
        made = b'{"beside":%d}' % key
        await self.frames.pop_completed(
            self.place.verdict(await claimed(self.frames, delivery), base=base, output=made)
        )
        return made

    async def done_with(self, key: int, content: bytes) -> bytes:
        """Do the step under this key with a payload that is the head; the payload that it made."""
        claim, made = await self.claim(key, input_hash=sha256(content).digest()), b'{"done":%d}' % key
        await self.frames.pop_completed(self.place.verdict(claim, base=content, output=made))
        return made


@pytest.fixture
async def guarded(dsn: str) -> AsyncIterator[Guarded]:
    async with opened(dsn) as place, working(place.database, lease=timedelta(minutes=1)) as frames:
        yield Guarded(place, frames)


async def test_a_step_alone_is_run(guarded: Guarded) -> None:
    claim = await guarded.claim(1)

    assert not claim.may_have_twin
    assert await guarded.admit(1, claim) == claim


@pytest.mark.req("JOB-05")
async def test_a_completed_step_is_repeated_and_told_once(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.done(1)
    claim = await guarded.claim(2)
    verdict = await guarded.admit(2, claim)

    assert claim.may_have_twin
    assert isinstance(verdict, Completed)
    assert verdict.payload == b'{"step":1}'
    assert verdict.flags == {"orch_step": 1}
    assert await guarded.place.column("repeats", 2) == 1
    assert await guarded.place.column("state", 2) == "completed"


async def test_a_completed_step_is_found_in_the_archive(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.done(1)
    for _ in range(2):
        await guarded.frames.archive(older_than=timedelta(0), settled=timedelta(0))
    claim = await guarded.claim(2)

    assert await guarded.place.column("state", 1) is None
    assert isinstance(await guarded.admit(2, claim), Completed)


async def test_a_running_step_is_waited_for(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.claim(1)
    claim = await guarded.claim(2)

    with pytest.raises(TransientInfrastructure, match="running under job 1"):
        await guarded.admit(2, claim)


async def test_a_step_that_stopped_goes_on_with_its_key_and_its_old_owner_is_fenced(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    old = await guarded.claim(1, mode="external")
    await guarded.place.expire(1)
    claim = await guarded.claim(2, mode="external")
    admitted = await guarded.admit(2, claim)

    assert isinstance(admitted, Claim)
    assert (admitted.idempotency_key, admitted.follows_twin) == (old.idempotency_key, True)
    assert claim.idempotency_key != old.idempotency_key
    with pytest.raises(Fenced):
        await guarded.frames.pop_completed(guarded.place.verdict(old))
    assert await guarded.place.column("ack_result", 1) == "gone"


@pytest.mark.parametrize("change", [{"on_unknown": "hold"}, {"idempotency_window": timedelta(0)}])
async def test_a_step_that_may_have_reached_the_outside_is_held(guarded: Guarded, change: dict[str, Any]) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.claim(1, mode="external", **change)
    await guarded.place.expire(1)
    claim = await guarded.claim(2, mode="external", **change)

    with pytest.raises(PermanentContract) as held:
        await guarded.admit(2, claim)
    assert held.value.code == "OutcomeUnknown"


async def test_a_step_that_failed_or_was_held_goes_on(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.frames.pop_failed(await guarded.claim(1, mode="external", on_unknown="hold"), RETRY)
    await guarded.frames.pop_incident(await guarded.claim(2, mode="external", on_unknown="hold"), INCIDENT)
    first = await guarded.place.column("idempotency_key", 1)
    claim = await guarded.claim(3, mode="external", on_unknown="hold")
    admitted = await guarded.admit(3, claim)

    assert isinstance(admitted, Claim)
    assert admitted.idempotency_key == first


async def test_a_step_done_while_another_job_of_it_ran_is_not_stored_twice(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.claim(2)
    await guarded.done(1)
    async with guarded.place.database.transaction() as connection:
        with pytest.raises(StepDone):
            await guarded.guard.check_in(connection, guarded.job(2), guarded.place.instance.instance_uid, _HASH)


async def test_where_two_tokens_may_stand_a_job_beside_another_runs_and_a_later_one_is_held(guarded: Guarded) -> None:
    await guarded.deploy(_FORKED)
    await guarded.done(1)
    acked = int((await guarded.place.column("acked_at", 1)).timestamp() * 1000)
    claim = await guarded.claim(2)

    assert await guarded.admit(2, claim, at=acked - 5000) == claim
    with pytest.raises(PermanentContract) as held:
        await guarded.admit(2, claim, at=acked + 5000)
    assert held.value.code == "StepAmbiguous"
    await guarded.frames.pop_incident(claim, replace(INCIDENT, code="StepAmbiguous"))
    assert await guarded.admit(2, claim, at=acked + 5000) == claim


async def test_of_a_model_that_is_not_on_record_a_step_that_was_done_is_held(guarded: Guarded) -> None:
    await guarded.done(1)
    claim = await guarded.claim(2)

    with pytest.raises(PermanentContract) as held:
        await guarded.admit(2, claim)
    assert held.value.code == "StepAmbiguous"


# ---- an element that is entered once ---------------------------------------------------------------------------------


@pytest.mark.req("JOB-05")
async def test_a_step_that_is_entered_once_is_repeated_whatever_its_input(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    made = await guarded.done_with(1, await guarded.done_beside(10))
    verdict = await guarded.admit(2, await guarded.claim(2))

    assert isinstance(verdict, Completed)
    assert verdict.payload == made
    assert await guarded.place.column("repeats", 2) == 1


async def test_a_step_that_is_entered_once_is_found_in_the_archive_whatever_its_input(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.done_with(1, await guarded.done_beside(10))
    guarded.frames.acknowledge(1, "ok")
    await guarded.frames.flush()
    for _ in range(2):
        await guarded.frames.archive(older_than=timedelta(0), settled=timedelta(0))
    claim = await guarded.claim(2)

    assert await guarded.place.column("state", 1) is None
    assert isinstance(await guarded.admit(2, claim), Completed)


async def test_a_step_on_a_cycle_is_another_step_with_another_input(guarded: Guarded) -> None:
    await guarded.deploy(_LOOP)
    await guarded.done_with(1, await guarded.done_beside(10))
    claim = await guarded.claim(2)

    assert await guarded.admit(2, claim) == claim


async def test_a_branch_that_comes_again_with_what_another_branch_wrote_is_repeated(guarded: Guarded) -> None:
    await guarded.deploy(_BRANCHES)
    await guarded.done(1)
    head = sha256(await guarded.done_beside(10, base=b'{"step":1}')).digest()
    claim = await guarded.claim(2, input_hash=head)
    verdict = await guarded.admit(2, claim, input_hash=head)

    assert (claim.input_is_head, claim.may_have_twin, claim.is_element_visited) == (True, False, True)
    assert isinstance(verdict, Completed)
    assert verdict.payload == b'{"step":1}'


async def test_a_branch_that_is_in_the_archive_is_repeated_with_what_another_branch_wrote(guarded: Guarded) -> None:
    await guarded.deploy(_BRANCHES)
    await guarded.done(1)
    for _ in range(2):
        await guarded.frames.archive(older_than=timedelta(0), settled=timedelta(0))
    head = sha256(await guarded.done_beside(10, base=b'{"step":1}')).digest()
    young = await guarded.claim(3, input_hash=head)
    await guarded.place.database.execute(
        "UPDATE verbworker.workflow_instance SET created_at = created_at - interval '2 minutes'"
    )
    await guarded.place.database.execute("DELETE FROM verbworker.job_frame WHERE job_key = 3")
    claim = await guarded.claim(2, input_hash=head)
    verdict = await guarded.admit(2, claim, input_hash=head)

    assert await guarded.place.column("state", 1) is None
    assert (young.may_have_archived, claim.may_have_archived) == (False, True)
    assert (claim.may_have_twin, claim.is_element_visited) == (False, False)
    assert isinstance(verdict, Completed)


async def test_a_step_whose_result_came_back_with_the_job_is_held_until_a_person_lets_it_go(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.done(1)
    head = sha256(await guarded.done_beside(10, base=b'{"step":1}')).digest()
    claim = await guarded.claim(2, input_hash=head)

    with pytest.raises(PermanentContract) as held:
        await guarded.admit(2, claim, input_hash=head)
    assert held.value.code == "StepAmbiguous"
    await guarded.frames.pop_incident(claim, replace(INCIDENT, code="StepAmbiguous"))
    assert await guarded.admit(2, claim, input_hash=head) == claim


async def test_a_branch_done_with_another_input_while_another_job_of_it_ran_is_not_stored_twice(
    guarded: Guarded,
) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.claim(2)
    await guarded.done_with(1, await guarded.done_beside(10))
    async with guarded.place.database.transaction() as connection:
        with pytest.raises(StepDone):
            await guarded.guard.check_in(connection, guarded.job(2), guarded.place.instance.instance_uid, _HASH)


# ---- a delivery that lay about ---------------------------------------------------------------------------------------


@pytest.mark.req("JOB-05")
@pytest.mark.parametrize("state", ["incident", "failed", "started"])
async def test_a_delivery_from_before_the_job_that_the_engine_has_now_does_not_run(
    guarded: Guarded, state: str
) -> None:
    await guarded.deploy(_PLAIN)
    claim = await claimed(guarded.frames, guarded.place.delivery(2, at=100))
    if state == "incident":
        await guarded.frames.pop_incident(claim, INCIDENT)
    elif state == "failed":
        await guarded.frames.pop_failed(claim, RETRY)
    else:
        await guarded.place.expire(2)
    late = await claimed(guarded.frames, guarded.place.delivery(1, at=50))

    with pytest.raises(StepMovedOn):
        await guarded.admit(1, late, at=50)
    assert await guarded.place.column("state", 2) == state
    assert await guarded.place.column("epoch", 2) == 1
    assert await guarded.place.column("acked_at", 2) is None


async def test_a_job_does_not_go_on_from_a_late_delivery_that_ran_nothing(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    late = await claimed(guarded.frames, guarded.place.delivery(1, at=50))
    await guarded.frames.close(1, late.epoch, code=StepMovedOn.code, message="late")
    claim = await claimed(guarded.frames, guarded.place.delivery(2, at=100))

    assert await guarded.admit(2, claim, at=100) == claim


async def test_a_job_of_the_pinned_instance_does_not_give_way_to_a_later_one_of_another(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    other = make_delivery(make_job(2, at=100, process_instance_key=77), guarded.place.instance)
    await guarded.frames.pop_failed(await claimed(guarded.frames, other), RETRY)
    claim = await claimed(guarded.frames, guarded.place.delivery(1, at=50))

    assert isinstance(await guarded.admit(1, claim, at=50), Claim)


async def test_a_late_delivery_of_an_instance_that_was_replaced_does_not_run(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.frames.pop_incident(await claimed(guarded.frames, guarded.place.delivery(2, at=100)), INCIDENT)
    job = make_job(1, at=50, process_instance_key=77)
    late = await claimed(guarded.frames, make_delivery(job, guarded.place.instance))

    with pytest.raises(StepMovedOn):
        await guarded.guard.admit(job, late, guarded.place.instance.instance_uid, _HASH)
    assert await guarded.place.column("state", 2) == "incident"


async def test_a_job_of_an_instance_that_is_not_the_pinned_one_gets_no_verdict(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.done(1)
    job = make_job(2, at=100, process_instance_key=77)
    claim = await claimed(guarded.frames, make_delivery(job, guarded.place.instance))

    assert await guarded.guard.admit(job, claim, guarded.place.instance.instance_uid, _HASH) == claim


async def test_a_late_delivery_whose_job_ran_before_leaves_word_that_it_may_have_got_through(guarded: Guarded) -> None:
    await guarded.deploy(_PLAIN)
    await guarded.claim(1)
    await guarded.place.expire(1)
    await guarded.frames.pop_incident(await claimed(guarded.frames, guarded.place.delivery(2, at=100)), INCIDENT)
    again = await claimed(guarded.frames, guarded.place.delivery(1, at=50))

    with pytest.raises(JobVanished):
        await guarded.admit(1, again, at=50)


# ---- twins in one batch ----------------------------------------------------------------------------------------------


async def test_of_two_jobs_of_a_step_that_are_claimed_by_one_statement_the_older_looks_for_the_other(
    guarded: Guarded,
) -> None:
    older, newer = guarded.place.delivery(1, at=50), guarded.place.delivery(2, at=100)
    claims = await guarded.frames._open_many([older, newer])

    assert [claim and claim.may_have_twin for claim in claims] == [True, False]


async def test_of_two_jobs_of_an_element_that_are_claimed_by_one_statement_one_knows_of_the_other(
    guarded: Guarded,
) -> None:
    seen = sha256(await guarded.done_beside(10)).digest()
    one, other = guarded.place.delivery(1, at=50, input_hash=seen), guarded.place.delivery(2, at=100)
    claims = await guarded.frames._open_many([one, other])

    assert [claim and claim.is_element_visited for claim in claims] == [True, False]
