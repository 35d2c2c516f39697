"""Slots: how many jobs may be asked for, and who waits for a place."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.virtual_time import Hung, turns, virtual_time
from verbworker import metrics
from verbworker.work.slots import Slots


def granted(verb: str) -> float:
    value = metrics.REGISTRY.get_sample_value("verbworker_limit", {"verb": verb})
    assert value is not None
    return value


@virtual_time
async def test_all_free_slots_may_be_taken_and_no_more() -> None:
    slots = Slots("kyc.check", 5)

    assert await slots.take(most=3) == 3
    assert await slots.take(most=10) == 2
    assert slots.free == 0


@virtual_time
async def test_whoever_finds_no_slot_waits_for_one() -> None:
    slots = Slots("kyc.check", 1)
    await slots.take(most=1)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(slots.take(most=1))
        await turns()
        assert not waiting.done()
        slots.give()

    assert waiting.result() == 1


def test_a_slot_nobody_gives_back_is_waited_for() -> None:
    @virtual_time
    async def wait() -> None:
        slots = Slots("kyc.check", 1)
        await slots.take(most=1)
        await slots.take(most=1, patience=3600)

    with pytest.raises(Hung):
        wait()


@virtual_time
async def test_a_slot_given_back_goes_to_one_of_those_who_wait() -> None:
    slots = Slots("kyc.check", 1)
    await slots.take(most=1)
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(slots.take(most=1)) for _ in range(3)]
        await turns()
        slots.give()
        await turns()
        served = sum(task.done() for task in waiting)
        slots.give()
        await turns()
        slots.give()

    assert served == 1


@virtual_time
async def test_with_patience_a_third_of_the_slots_is_worth_waiting_for() -> None:
    slots = Slots("kyc.check", 9)
    await slots.take(most=9)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(slots.take(most=100, patience=60))
        await turns()
        slots.give(2)
        await turns()
        assert not waiting.done()
        slots.give(1)

    assert waiting.result() == 3


@virtual_time
async def test_patience_ends_and_less_is_taken() -> None:
    slots = Slots("kyc.check", 9)
    await slots.take(most=8)

    assert await slots.take(most=100, patience=60) == 1
    assert asyncio.get_running_loop().time() == pytest.approx(60)


@virtual_time
async def test_whoever_wants_little_waits_for_no_more() -> None:
    slots = Slots("kyc.check", 9)
    await slots.take(most=8)

    assert await slots.take(most=1, patience=60) == 1
    assert asyncio.get_running_loop().time() == 0


@virtual_time
async def test_a_slot_that_was_snatched_while_patience_ended_is_waited_for_again() -> None:
    slots = Slots("kyc.check", 9)
    await slots.take(most=8)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(slots.take(most=100, patience=60))
        await turns()
        assert await slots.take(most=1) == 1
        await asyncio.sleep(61)
        assert not waiting.done()
        slots.give()

    assert waiting.result() == 1


@virtual_time
async def test_who_is_cancelled_while_waiting_takes_no_slot_along() -> None:
    slots = Slots("kyc.check", 1)
    await slots.take(most=1)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(slots.take(most=1))
        await turns()
        slots.give()  # and before it can look:
        waiting.cancel()

    assert slots.free == 1


@pytest.mark.req("FAIL-06")
@virtual_time
async def test_an_engine_that_asks_for_less_gets_less() -> None:
    slots = Slots("kyc.blamed", 8)
    slots.blame()

    assert (slots.free, granted("kyc.blamed")) == (4, 4)


@virtual_time
async def test_slots_that_are_taken_already_stay_taken_when_the_limit_falls_below_them() -> None:
    slots = Slots("kyc.check", 8)
    await slots.take(most=8)
    slots.blame()
    slots.give(4)

    assert slots.free == 0


@virtual_time
async def test_praise_lets_those_who_wait_go_on() -> None:
    slots = Slots("kyc.praised", 8)
    slots.blame()
    await slots.take(most=4)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(slots.take(most=1))
        await turns()
        assert not waiting.done()
        slots.praise(4)

    assert waiting.result() == 1
    assert granted("kyc.praised") == 5


@virtual_time
async def test_room_is_what_no_job_is_at_work_on() -> None:
    slots = Slots("kyc.check", 8)
    await slots.take(most=3)

    assert (slots.room(asked=0), slots.room(asked=1), slots.room(asked=3)) == (5, 6, 8)


@given(st.integers(1, 40), st.lists(st.sampled_from(["take", "give", "blame", "praise"]), max_size=60))
def test_nobody_ever_takes_more_than_is_free(concurrency: int, deeds: list[str]) -> None:
    @virtual_time
    async def play() -> None:
        slots, taken = Slots("kyc.check", concurrency), 0
        for deed in deeds:
            free = slots.free
            match deed:
                case "take" if free:
                    count = await slots.take(most=3)
                    assert 1 <= count <= min(3, free)
                    taken += count
                case "give" if taken:
                    slots.give()
                    taken -= 1
                case "blame":
                    slots.blame()
                case "praise":
                    slots.praise(5)

            assert slots.room(asked=0) + taken <= concurrency
            assert slots.free == max(0, slots.room(asked=0))

    play()
