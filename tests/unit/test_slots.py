"""Slots: how many jobs may be asked for, and who waits for a place."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.virtual_time import Hung, turns, virtual_time
from verbworker import metrics
from verbworker.work.feeds.slots import Reservation, Slot, Slots


def granted(verb: str) -> float:
    value = metrics.REGISTRY.get_sample_value("verbworker_limit", {"verb": verb})
    assert value is not None
    return value


@virtual_time
async def test_all_free_slots_may_be_reserved_and_no_more() -> None:
    slots = Slots("kyc.check", 5)

    assert (await slots.reserve(most=3)).count == 3
    assert (await slots.reserve(most=10)).count == 2
    assert slots.free == 0


@virtual_time
async def test_whoever_finds_no_slot_waits_for_one() -> None:
    slots = Slots("kyc.check", 1)
    held = await slots.reserve(most=1)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(slots.reserve(most=1))
        await turns()
        assert not waiting.done()
        held.release()

    assert waiting.result().count == 1


def test_a_slot_nobody_gives_back_is_waited_for() -> None:
    @virtual_time
    async def wait() -> None:
        slots = Slots("kyc.check", 1)
        await slots.reserve(most=1)
        await slots.reserve(most=1, linger=3600)

    with pytest.raises(Hung):
        wait()


@virtual_time
async def test_a_slot_given_back_goes_to_one_of_those_who_wait() -> None:
    slots = Slots("kyc.check", 1)
    held = await slots.reserve(most=1)
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(slots.reserve(most=1)) for _ in range(3)]
        await turns()
        held.release()
        await turns()
        served = [task.result() for task in waiting if task.done()]
        for _ in waiting:
            for task in waiting:
                if task.done():
                    task.result().release()
            await turns()

    assert len(served) == 1


@virtual_time
async def test_with_time_to_linger_a_third_of_the_slots_is_waited_for() -> None:
    slots = Slots("kyc.check", 9)
    held = await slots.reserve(most=9)
    jobs = [held.assign() for _ in range(9)]
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(slots.reserve(most=100, linger=60))
        await turns()
        jobs[0].release()
        jobs[1].release()
        await turns()
        assert not waiting.done()
        jobs[2].release()

    assert waiting.result().count == 3


@virtual_time
async def test_after_the_time_to_linger_less_is_reserved() -> None:
    slots = Slots("kyc.check", 9)
    await slots.reserve(most=8)

    assert (await slots.reserve(most=100, linger=60)).count == 1
    assert asyncio.get_running_loop().time() == pytest.approx(60)


@virtual_time
async def test_whoever_wants_little_waits_for_no_more() -> None:
    slots = Slots("kyc.check", 9)
    await slots.reserve(most=8)

    assert (await slots.reserve(most=1, linger=60)).count == 1
    assert asyncio.get_running_loop().time() == 0


@virtual_time
async def test_a_slot_that_was_taken_as_the_time_ended_is_waited_for_again() -> None:
    slots = Slots("kyc.check", 9)
    await slots.reserve(most=8)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(slots.reserve(most=100, linger=60))
        await turns()
        snatched = await slots.reserve(most=1)
        await asyncio.sleep(61)
        assert not waiting.done()
        snatched.release()

    assert waiting.result().count == 1


@virtual_time
async def test_who_is_cancelled_while_waiting_takes_no_slot_along() -> None:
    slots = Slots("kyc.check", 1)
    held = await slots.reserve(most=1)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(slots.reserve(most=1))
        await turns()
        held.release()  # and before it can look:
        waiting.cancel()

    assert slots.free == 1


@virtual_time
async def test_an_engine_that_asks_for_less_gets_less() -> None:
    slots = Slots("kyc.refused", 8)
    slots.note_refusal()

    assert (slots.free, granted("kyc.refused")) == (4, 4)


@virtual_time
async def test_slots_that_are_taken_already_stay_taken_when_the_limit_falls_below_them() -> None:
    slots = Slots("kyc.check", 8)
    await slots.reserve(most=4)
    held = await slots.reserve(most=4)
    slots.note_refusal()
    held.release()

    assert slots.free == 0


@virtual_time
async def test_an_answer_lets_waiting_requests_go_on() -> None:
    slots = Slots("kyc.answered", 8)
    slots.note_refusal()
    await slots.reserve(most=4)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(slots.reserve(most=1))
        await turns()
        assert not waiting.done()
        slots.note_answer(4)

    assert waiting.result().count == 1
    assert granted("kyc.answered") == 5


@virtual_time
async def test_room_is_what_no_job_works_in() -> None:
    slots = Slots("kyc.check", 8)
    held = await slots.reserve(most=3)
    before = slots.room
    held.assign()

    assert (before, slots.room, slots.free) == (8, 7, 5)


@virtual_time
async def test_leaving_a_reservation_gives_back_what_no_job_got() -> None:
    slots = Slots("kyc.check", 8)
    with await slots.reserve(most=5) as held:
        job = held.assign()

    assert slots.free == 7
    job.release()
    assert slots.free == 8


@virtual_time
async def test_a_slot_that_is_released_twice_comes_back_once() -> None:
    slots = Slots("kyc.check", 2)
    with await slots.reserve(most=2) as held:
        first, _second = held.assign(), held.assign()
    first.release()
    first.release()
    held.release()

    assert slots.free == 1


@virtual_time
async def test_no_more_jobs_get_a_slot_than_were_reserved() -> None:
    slots = Slots("kyc.check", 8)
    with await slots.reserve(most=1) as held:
        held.assign()
        with pytest.raises(ValueError, match="no slot is left"):
            held.assign()

    assert slots.free == 7


@given(st.integers(1, 40), st.lists(st.sampled_from(["reserve", "assign", "leave", "done", "refusal", "answer"])))
def test_no_more_slots_are_held_than_there_are_and_all_come_back(concurrency: int, steps: list[str]) -> None:
    @virtual_time
    async def play() -> None:
        slots = Slots("kyc.check", concurrency)
        requests: list[Reservation] = []
        jobs: list[Slot] = []
        for step in steps:
            free = slots.free
            match step:
                case "reserve" if free:
                    requests.append(await slots.reserve(most=3))
                    assert 1 <= requests[-1].count <= min(3, free)
                case "assign" if requests and requests[-1].count:
                    jobs.append(requests[-1].assign())
                case "leave" if requests:
                    requests.pop().release()
                case "done" if jobs:
                    jobs.pop(0).release()
                case "refusal":
                    slots.note_refusal()
                case "answer":
                    slots.note_answer(5)

            held = len(jobs) + sum(request.count for request in requests)
            assert slots.room + len(jobs) <= concurrency
            assert slots.free == max(0, slots.room + len(jobs) - held)

        for request in requests:
            request.release()
        for job in jobs:
            job.release()
        slots.note_answer(10_000)

        assert slots.free == slots.room

    play()
