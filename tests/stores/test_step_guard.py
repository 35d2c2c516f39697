"""The step guard on a real database: what a claim may do when other jobs of its step have frames."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest

from tests.support.frames import ENGINE, INCIDENT, RETRY, opened, working
from tests.support.guarded import BRANCHES, FORKED, HASH, LOOP, PLAIN, Guarded
from verbworker.errors import Fenced, PermanentContract, TransientInfrastructure
from verbworker.job.frame import Claim
from verbworker.job.outcome import JobResult, Thrown
from verbworker.stores.sql import query
from verbworker.work.jobs.step_guard import StepDone


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
    await guarded.deploy(PLAIN)
    await guarded.done(1)
    claim = await guarded.claim(2)
    verdict = await guarded.admit(2, claim)

    assert claim.may_have_twin
    assert isinstance(verdict, JobResult)
    assert verdict.payload == b'{"step":1}'
    assert verdict.flags == {"orch_step": 1}
    assert await guarded.place.column("repeats", 2) == 1
    assert await guarded.place.column("state", 2) == "completed"


async def test_a_completed_step_is_found_in_the_archive(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
    await guarded.done(1)
    for _ in range(2):
        await guarded.frames.archive(older_than=timedelta(0), settled=timedelta(0))
    claim = await guarded.claim(2)

    assert await guarded.place.column("state", 1) is None
    assert isinstance(await guarded.admit(2, claim), JobResult)


async def test_a_completed_step_is_found_whose_keys_all_belong_to_another_instance_now(guarded: Guarded) -> None:
    # A broker that lost its last records gives out the keys of instance, element and job again, in that order.
    await guarded.deploy(PLAIN)
    await guarded.done(1)
    await guarded.place.database.fetch(query("frames", "archive_months"), timedelta(0))
    await guarded.place.database.fetch("SELECT verbworker.displace_frame($1, 1, 1)", ENGINE)
    other = await guarded.place.open()
    await guarded.claim(1, instance_uid=other.instance_uid, entry_id=other.entry_id)
    claim = await guarded.claim(2)

    assert isinstance(await guarded.admit(2, claim), JobResult)
    assert await guarded.place.column("repeats", 2) == 1


async def test_a_running_step_is_waited_for(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
    await guarded.claim(1)
    claim = await guarded.claim(2)

    with pytest.raises(TransientInfrastructure, match="running under job 1"):
        await guarded.admit(2, claim)


async def test_a_step_that_stopped_goes_on_with_its_key_and_its_old_owner_is_fenced(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
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
    await guarded.deploy(PLAIN)
    await guarded.claim(1, mode="external", **change)
    await guarded.place.expire(1)
    claim = await guarded.claim(2, mode="external", **change)

    with pytest.raises(PermanentContract) as held:
        await guarded.admit(2, claim)
    assert held.value.code == "OutcomeUnknown"


async def test_a_step_that_failed_or_was_held_goes_on(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
    await guarded.frames.pop_failed(await guarded.claim(1, mode="external", on_unknown="hold"), RETRY)
    await guarded.frames.pop_incident(await guarded.claim(2, mode="external", on_unknown="hold"), INCIDENT)
    first = await guarded.place.column("idempotency_key", 1)
    claim = await guarded.claim(3, mode="external", on_unknown="hold")
    admitted = await guarded.admit(3, claim)

    assert isinstance(admitted, Claim)
    assert admitted.idempotency_key == first


async def threw(guarded: Guarded, model: bytes, answer: str | None) -> tuple[Claim, Claim]:
    """A call that ended by a BPMN error, what the engine answered to that, and the next job of its step."""
    await guarded.deploy(model)
    old = await guarded.claim(1, mode="external")
    await guarded.frames.pop_thrown(old, Thrown("REFUSED", "no"))
    if answer is not None:
        await guarded.frames.acknowledge_in(guarded.place.database, {1: answer})
    return old, await guarded.claim(2, mode="external")


@pytest.mark.req("JOB-05")
async def test_a_step_whose_error_the_engine_lost_calls_the_outside_under_its_first_key(guarded: Guarded) -> None:
    old, claim = await threw(guarded, PLAIN, "gone")
    admitted = await guarded.admit(2, claim)

    assert isinstance(admitted, Claim)
    assert (admitted.idempotency_key, admitted.follows_twin) == (old.idempotency_key, True)
    assert await guarded.place.column("idempotency_key", 2) == old.idempotency_key


async def test_a_step_whose_error_is_not_answered_yet_is_waited_for(guarded: Guarded) -> None:
    _, claim = await threw(guarded, PLAIN, None)

    with pytest.raises(TransientInfrastructure, match="has not confirmed the error of job 1"):
        await guarded.admit(2, claim)


async def test_an_element_on_a_cycle_is_visited_again_after_an_error_that_the_engine_took(guarded: Guarded) -> None:
    _, claim = await threw(guarded, LOOP, "ok")

    assert await guarded.admit(2, claim) == claim


async def test_an_element_on_a_cycle_is_held_after_an_error_that_the_engine_may_have_lost(guarded: Guarded) -> None:
    _, claim = await threw(guarded, LOOP, "gone")

    with pytest.raises(PermanentContract) as held:
        await guarded.admit(2, claim)
    assert held.value.code == "StepAmbiguous"


async def test_a_step_done_while_another_job_of_it_ran_is_not_stored_twice(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
    await guarded.claim(2)
    await guarded.done(1)
    async with guarded.place.database.transaction() as connection:
        with pytest.raises(StepDone):
            await guarded.guard.check_in(connection, guarded.job(2), guarded.place.instance.instance_uid, HASH)


async def test_where_two_tokens_may_stand_a_job_beside_another_runs_and_a_later_one_is_held(guarded: Guarded) -> None:
    await guarded.deploy(FORKED)
    await guarded.done(1)
    acked = int((await guarded.place.column("acked_at", 1)).timestamp() * 1000)
    claim = await guarded.claim(2)

    assert await guarded.admit(2, claim, at=acked - 5000) == claim
    with pytest.raises(PermanentContract) as held:
        await guarded.admit(2, claim, at=acked + 5000)
    assert held.value.code == "StepAmbiguous"
    await guarded.frames.pop_incident(claim, replace(INCIDENT, code="StepAmbiguous"))
    assert await guarded.admit(2, claim, at=acked + 5000) == claim


@pytest.mark.req("X-08")
async def test_two_tokens_are_told_apart_only_by_a_job_that_the_engine_had(guarded: Guarded) -> None:
    await guarded.deploy(FORKED)
    await guarded.frames.pop_completed(guarded.place.verdict(await guarded.claim(1)))
    claim = await guarded.claim(2)

    with pytest.raises(TransientInfrastructure, match="has not confirmed the verdict of job 1"):
        await guarded.admit(2, claim)
    guarded.frames.acknowledge(1, "gone")
    await guarded.frames.flush()
    with pytest.raises(PermanentContract) as held:
        await guarded.admit(2, claim)

    assert held.value.code == "StepAmbiguous"


async def test_of_a_model_that_is_not_on_record_a_step_that_was_done_is_held(guarded: Guarded) -> None:
    await guarded.done(1)
    claim = await guarded.claim(2)

    with pytest.raises(PermanentContract) as held:
        await guarded.admit(2, claim)
    assert held.value.code == "StepAmbiguous"


# ---- an element that is entered once ---------------------------------------------------------------------------------


@pytest.mark.req("JOB-05")
async def test_a_step_that_is_entered_once_is_repeated_whatever_its_input(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
    made = await guarded.done_with(1, await guarded.done_beside(10))
    verdict = await guarded.admit(2, await guarded.claim(2))

    assert isinstance(verdict, JobResult)
    assert verdict.payload == made
    assert await guarded.place.column("repeats", 2) == 1


async def test_a_step_that_is_entered_once_is_found_in_the_archive_whatever_its_input(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
    await guarded.done_with(1, await guarded.done_beside(10))
    guarded.frames.acknowledge(1, "ok")
    await guarded.frames.flush()
    for _ in range(2):
        await guarded.frames.archive(older_than=timedelta(0), settled=timedelta(0))
    claim = await guarded.claim(2)

    assert await guarded.place.column("state", 1) is None
    assert isinstance(await guarded.admit(2, claim), JobResult)


async def test_a_step_on_a_cycle_is_another_step_with_another_input(guarded: Guarded) -> None:
    await guarded.deploy(LOOP)
    await guarded.done_with(1, await guarded.done_beside(10))
    claim = await guarded.claim(2)

    assert await guarded.admit(2, claim) == claim


async def test_a_branch_that_comes_again_with_what_another_branch_wrote_is_repeated(guarded: Guarded) -> None:
    await guarded.deploy(BRANCHES)
    await guarded.done(1)
    head = sha256(await guarded.done_beside(10, base=b'{"step":1}')).digest()
    claim = await guarded.claim(2, input_hash=head)
    verdict = await guarded.admit(2, claim, input_hash=head)

    assert (claim.input_is_head, claim.may_have_twin, claim.is_element_visited) == (True, False, True)
    assert isinstance(verdict, JobResult)
    assert verdict.payload == b'{"step":1}'


async def test_a_branch_that_is_in_the_archive_is_repeated_with_what_another_branch_wrote(guarded: Guarded) -> None:
    await guarded.deploy(BRANCHES)
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
    assert isinstance(verdict, JobResult)


async def test_a_step_whose_result_came_back_with_the_job_is_held_until_a_person_lets_it_go(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
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
    await guarded.deploy(PLAIN)
    await guarded.claim(2)
    await guarded.done_with(1, await guarded.done_beside(10))
    async with guarded.place.database.transaction() as connection:
        with pytest.raises(StepDone):
            await guarded.guard.check_in(connection, guarded.job(2), guarded.place.instance.instance_uid, HASH)
