"""Jobs of one step that meet: a delivery that lay about while the engine lost its job, and twins in one batch."""

from collections.abc import AsyncIterator
from datetime import timedelta
from hashlib import sha256

import pytest

from tests.support.frames import INCIDENT, RETRY, claimed, make_delivery, make_job, opened, working
from tests.support.guarded import HASH, PLAIN, Guarded
from verbworker.job.frame import Claim
from verbworker.work.feeds.leases import JobVanished
from verbworker.work.jobs.step_guard import StepMovedOn


@pytest.fixture
async def guarded(dsn: str) -> AsyncIterator[Guarded]:
    async with opened(dsn) as place, working(place.database, lease=timedelta(minutes=1)) as frames:
        yield Guarded(place, frames)


# ---- a delivery that lay about ---------------------------------------------------------------------------------------


@pytest.mark.req("JOB-05")
@pytest.mark.parametrize("state", ["incident", "failed", "started"])
async def test_a_delivery_from_before_the_job_that_the_engine_has_now_does_not_run(
    guarded: Guarded, state: str
) -> None:
    await guarded.deploy(PLAIN)
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
    await guarded.deploy(PLAIN)
    late = await claimed(guarded.frames, guarded.place.delivery(1, at=50))
    await guarded.frames.close(1, late.epoch, code=StepMovedOn.code, message="late")
    claim = await claimed(guarded.frames, guarded.place.delivery(2, at=100))

    assert await guarded.admit(2, claim, at=100) == claim


async def test_a_job_of_the_pinned_instance_does_not_give_way_to_a_later_one_of_another(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
    other = make_delivery(make_job(2, at=100, process_instance_key=77), guarded.place.instance)
    await guarded.frames.pop_failed(await claimed(guarded.frames, other), RETRY)
    claim = await claimed(guarded.frames, guarded.place.delivery(1, at=50))

    assert isinstance(await guarded.admit(1, claim, at=50), Claim)


async def test_a_late_delivery_of_an_instance_that_was_replaced_does_not_run(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
    await guarded.frames.pop_incident(await claimed(guarded.frames, guarded.place.delivery(2, at=100)), INCIDENT)
    job = make_job(1, at=50, process_instance_key=77)
    late = await claimed(guarded.frames, make_delivery(job, guarded.place.instance))

    with pytest.raises(StepMovedOn):
        await guarded.guard.admit(job, late, guarded.place.instance.instance_uid, HASH)
    assert await guarded.place.column("state", 2) == "incident"


async def test_a_job_of_an_instance_that_is_not_the_pinned_one_gets_no_verdict(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
    await guarded.done(1)
    job = make_job(2, at=100, process_instance_key=77)
    claim = await claimed(guarded.frames, make_delivery(job, guarded.place.instance))

    assert await guarded.guard.admit(job, claim, guarded.place.instance.instance_uid, HASH) == claim


async def test_a_late_delivery_whose_job_ran_before_leaves_word_that_it_may_have_got_through(guarded: Guarded) -> None:
    await guarded.deploy(PLAIN)
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
