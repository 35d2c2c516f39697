"""The skeleton of background services in virtual time: when it works, what it waits for, what it says."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.outages import name_of, outages
from tests.support.virtual_time import turns, virtual_time
from verbworker import metrics
from verbworker.background.poll_loop import PollLoop, run_all, running
from verbworker.errors import AccessDenied, EndedByBug, EngineUnavailable, StoreConflict, StoreError, StoreUnavailable


class Queue:
    """Work that waits, and what goes wrong with it."""

    def __init__(self, items: int = 0) -> None:
        self.items = items
        self.errors: list[BaseException] = []
        self.away: BaseException | None = None
        self.worked_at: list[float] = []
        self.chores_at: list[float] = []
        self.did_work = asyncio.Event()

    async def work(self) -> int:
        """One batch of at most three."""
        await asyncio.sleep(0)
        self.worked_at.append(now())
        self.did_work.set()
        if self.away is not None:
            raise self.away
        if self.errors:
            raise self.errors.pop(0)
        taken = min(self.items, 3)
        self.items -= taken
        return taken

    async def chore(self) -> None:
        """Something to do now and then."""
        self.chores_at.append(now())


def now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def at_work(loop: PollLoop) -> AsyncIterator["asyncio.Task[None]"]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(loop.run())
        yield task
        task.cancel()


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    return [(record.getMessage(), record.__dict__) for record in caplog.records]


# ---- when it works -------------------------------------------------------------------------------------------------


@virtual_time
async def test_upkeep_leaves_the_start_to_the_jobs_unless_it_is_poked() -> None:
    upkeep, poked = Queue(), Queue()
    loop = PollLoop("poked", poked.work, every=30, first_after=60)
    upkeeping = PollLoop("tests", upkeep.work, every=300, chore=upkeep.chore, chore_every=100, first_after=60)
    async with at_work(upkeeping), at_work(loop):
        await turns()
        loop.poke()
        await asyncio.sleep(44)
        assert (upkeep.worked_at, upkeep.chores_at) == ([], [])
        assert poked.worked_at[0] == 0.0
        await asyncio.sleep(32)
        assert (len(upkeep.worked_at), upkeep.chores_at) == (1, [])
        await asyncio.sleep(400)

    assert len(upkeep.chores_at) == 1


@virtual_time
async def test_everything_that_waits_is_worked_in_batches_at_once() -> None:
    queue = Queue(7)
    async with at_work(PollLoop("tests", queue.work, every=10)):
        await turns()

    assert (queue.items, len(queue.worked_at)) == (0, 4)
    assert set(queue.worked_at) == {0.0}


@virtual_time
async def test_a_poke_is_heard_at_once_and_a_tick_comes_anyhow() -> None:
    queue = Queue()
    loop = PollLoop("tests", queue.work, every=10)
    async with at_work(loop):
        await asyncio.sleep(3)
        loop.poke()
        await asyncio.sleep(30)

    begun, poked, *ticks = queue.worked_at
    assert (begun, poked) == (0.0, 3.0)
    assert all(7.5 <= later - earlier <= 12.5 for earlier, later in zip([poked, *ticks], ticks, strict=False))
    assert 2 <= len(ticks) <= 4


@virtual_time
async def test_without_a_tick_only_a_poke_counts() -> None:
    queue = Queue()
    loop = PollLoop("tests", queue.work, every=None)
    async with at_work(loop):
        await asyncio.sleep(10_000)
        loop.poke()
        await turns()

    assert queue.worked_at == [0.0, 10_000.0]


@virtual_time
async def test_a_poke_while_it_works_is_not_lost() -> None:
    queue = Queue()
    loop = PollLoop("tests", queue.work, every=None)
    async with at_work(loop):
        await queue.did_work.wait()
        loop.poke()
        await turns()

    assert len(queue.worked_at) == 2


@virtual_time
async def test_a_chore_is_done_now_and_then_even_while_work_never_ends() -> None:
    queue = Queue()

    async def endless() -> int:
        await asyncio.sleep(1)
        return 1

    async with at_work(PollLoop("tests", endless, every=1, chore=queue.chore, chore_every=10)):
        await asyncio.sleep(35)

    assert queue.chores_at == [1.0, 11.0, 21.0, 31.0]


@virtual_time
async def test_a_chore_that_fails_is_done_again_soon() -> None:
    tried: list[float] = []

    async def chore() -> None:
        tried.append(now())
        if len(tried) == 1:
            raise StoreUnavailable("away")

    async with at_work(PollLoop("tests", Queue().work, every=1, chore=chore, chore_every=1000)):
        await asyncio.sleep(100)

    assert len(tried) == 2
    assert tried[1] < 1


# ---- what it waits for ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", outages(), ids=name_of)
@virtual_time
async def test_an_outage_is_waited_out_whatever_says_so(error: Exception) -> None:
    queue = Queue(3)
    queue.errors = [error, error, error]
    loop = PollLoop("tests", queue.work, every=30)
    async with at_work(loop) as task:
        await queue.did_work.wait()
        await turns()
        during = (loop.health.failures, loop.health.failing_since, queue.items)
        await asyncio.sleep(10)

        assert not task.done()
    assert during == (1, 0.0, 3)
    assert (queue.items, loop.health.failures, loop.health.failing_since) == (0, 0, None)


@virtual_time
async def test_pauses_grow_and_never_exceed_the_tick() -> None:
    queue = Queue()
    queue.away = EngineUnavailable("away")
    async with at_work(PollLoop("tests", queue.work, every=2)):
        await asyncio.sleep(60)

    pauses = [later - earlier for earlier, later in zip(queue.worked_at, queue.worked_at[1:], strict=False)]
    assert pauses[0] <= 0.05
    assert all(1 <= pause <= 2 for pause in pauses[8:])


@virtual_time
async def test_pokes_do_not_shorten_the_pause_of_an_outage() -> None:
    queue = Queue()
    queue.away = StoreUnavailable("away")
    loop = PollLoop("tests", queue.work, every=30)
    async with at_work(loop):
        for _ in range(600):
            loop.poke()
            await asyncio.sleep(0.1)

    assert len(queue.worked_at) < 40


@virtual_time
async def test_failures_are_counted_by_service_and_kind() -> None:
    def counted() -> float:
        labels = {"service": "counted", "kind": "StoreConflict"}
        return metrics.REGISTRY.get_sample_value("verbworker_service_failures_total", labels) or 0.0

    queue, before = Queue(), counted()
    queue.errors = [ExceptionGroup("x", [StoreConflict("met")]), StoreConflict("met")]
    async with at_work(PollLoop("counted", queue.work, every=1)):
        await asyncio.sleep(10)

    assert counted() - before == 2


# ---- what it says --------------------------------------------------------------------------------------------------


@virtual_time
async def test_an_outage_is_one_line_a_minute_and_one_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    queue = Queue()
    queue.away = StoreUnavailable("gone away")
    async with at_work(PollLoop("tests", queue.work, every=1)):
        await asyncio.sleep(150)
        queue.away = None
        await asyncio.sleep(5)

    said = [(words, record["failures"] > 10, round(record["seconds"] / 60)) for words, record in lines(caplog)]
    assert said[:3] == [
        ("service is waiting", False, 0),
        ("service is waiting", True, 1),
        ("service is waiting", True, 2),
    ]
    assert [words for words, _, _ in said[3:]] == ["service is back"]
    assert lines(caplog)[0][1]["reason"] == "gone away"
    assert lines(caplog)[0][1]["service"] == "tests"


@virtual_time
async def test_an_outage_that_comes_and_goes_is_no_more_than_two_lines_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    queue, loop = Queue(), None
    loop = PollLoop("tests", queue.work, every=1)
    async with at_work(loop):
        for _ in range(100):
            queue.errors.append(StoreUnavailable("gone"))
            loop.poke()
            await asyncio.sleep(1)

    assert 2 <= len(caplog.records) <= 4


@virtual_time
async def test_two_collisions_are_not_worth_a_line_and_three_are(caplog: pytest.LogCaptureFixture) -> None:
    queue = Queue()
    queue.errors = [StoreConflict("met"), StoreConflict("met")]
    loop = PollLoop("tests", queue.work, every=1)
    async with at_work(loop):
        await asyncio.sleep(5)
        few = len(caplog.records)
        queue.errors = [StoreConflict("met")] * 3
        await asyncio.sleep(5)

    assert (few, len(caplog.records)) == (0, 1)


@virtual_time
async def test_trouble_is_told_after_some_seconds_and_over_when_it_is_over() -> None:
    queue = Queue()
    queue.away = TimeoutError()
    loop = PollLoop("tests", queue.work, every=1)
    async with at_work(loop):
        await asyncio.sleep(3)
        early = loop.health.trouble(longer_than=5)
        await asyncio.sleep(10)
        late = loop.health.trouble(longer_than=5)
        queue.away = None
        await asyncio.sleep(5)

        assert loop.health.trouble(longer_than=0) is None
    assert (early, late) == (None, "tests: TimeoutError for 13 s")


# ---- bugs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bug",
    [
        LookupError("x"),
        ExceptionGroup("mixed", [StoreUnavailable("gone"), ExceptionGroup("inner", [LookupError("x")])]),
    ],
    ids=name_of,
)
@virtual_time
async def test_a_bug_ends_the_service_and_is_logged_once_with_its_place(
    bug: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue()
    queue.errors = [bug]
    loop = PollLoop("tests", queue.work, every=1)
    with pytest.raises(EndedByBug, match=r"a bug ended the service tests: LookupError in \S+, line \d+"):
        await loop.run()

    ((words, record),) = lines(caplog)
    assert (words, record["error"]) == ("service ended by a bug", "LookupError")
    assert loop.health.trouble(longer_than=100) == "tests: ended by a bug"


@virtual_time
async def test_a_bug_after_an_outage_ends_the_service() -> None:
    queue = Queue()
    queue.errors = [StoreUnavailable("gone"), LookupError("x")]

    with pytest.raises(EndedByBug):
        await PollLoop("tests", queue.work, every=1).run()


@virtual_time
async def test_a_cancellation_that_the_work_itself_raises_does_not_end_it_in_silence() -> None:
    queue = Queue()
    queue.errors = [asyncio.CancelledError()]

    with pytest.raises(EndedByBug, match="CancelledError"):
        await PollLoop("tests", queue.work, every=1).run()


@pytest.mark.parametrize("away", [True, False])
@virtual_time
async def test_cancelling_ends_it_at_work_at_rest_and_in_a_pause(away: bool) -> None:
    queue = Queue()
    queue.away = StoreUnavailable("gone") if away else None
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(PollLoop("tests", queue.work, every=10).run())
        await asyncio.sleep(3)
        task.cancel()
        await asyncio.wait([task])

    assert task.cancelled()


# ---- one item and the others ---------------------------------------------------------------------------------------


def striking(*errors: BaseException | None) -> Callable[[int], Awaitable[int]]:
    async def work(item: int) -> int:
        await asyncio.sleep(0)
        error = errors[item]
        if error is not None:
            raise error
        return item

    return work


@virtual_time
async def test_items_are_worked_together_but_not_too_many() -> None:
    at_once: list[int] = []
    busy = 0

    async def work(item: int) -> int:
        nonlocal busy
        busy += 1
        at_once.append(busy)
        await asyncio.sleep(1)
        busy -= 1
        return item

    done = await PollLoop("tests", Queue().work, every=1).for_each(range(10), 4, work)

    assert (sorted(done), max(at_once), now()) == (list(range(10)), 4, 3.0)


@virtual_time
async def test_a_bug_in_one_item_is_reported_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    loop = PollLoop("tests", Queue().work, every=1)
    done = await loop.for_each(range(3), 1, striking(None, LookupError("row"), None))
    again = await loop.for_each(range(3), 1, striking(None, LookupError("row"), None))

    assert (done, again) == ([0, 2], [0, 2])
    assert [words for words, _ in lines(caplog)] == ["item skipped because of a bug"]


@virtual_time
async def test_an_outage_in_items_fails_the_batch_after_all_were_tried(caplog: pytest.LogCaptureFixture) -> None:
    left = {0, 1, 2, 3}
    tried: list[int] = []

    async def one(item: int) -> None:
        tried.append(item)
        if item in (0, 2) and len(tried) <= 4:
            raise ExceptionGroup("x", [EngineUnavailable(f"away at {item}")])
        left.remove(item)

    async def batch() -> int:
        return len(await loop.for_each(sorted(left), 2, one))

    loop = PollLoop("tests", batch, every=1000)
    async with at_work(loop):
        await asyncio.sleep(5)

    assert tried == [0, 1, 2, 3, 0, 2]
    assert [record["reason"] for _, record in lines(caplog)] == ["away at 0"]
    assert (left, loop.health.failures) == (set(), 0)


@virtual_time
async def test_an_item_that_waits_by_itself_fails_the_batch_too() -> None:
    async def batch() -> int:
        loop.report(EngineUnavailable("away"))
        return 1

    loop = PollLoop("tests", batch, every=1)
    async with at_work(loop):
        await asyncio.sleep(10)

    assert loop.health.failures > 10
    assert loop.health.last_error == "EngineUnavailable"


@pytest.mark.parametrize("error", [StoreError("a bad row"), AccessDenied("not yours")], ids=name_of)
@virtual_time
async def test_an_item_that_is_refused_is_said_once_a_minute_and_leaves_the_service_well(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def batch() -> int:
        await loop.for_each(range(2), 1, striking(None, error))
        return 0

    loop = PollLoop("tests", batch, every=1)
    async with at_work(loop):
        await asyncio.sleep(90)

    assert [words for words, _ in lines(caplog)] == ["item refused"] * 2
    assert (loop.health.failing_since, loop.health.last_error) == (None, type(error).__name__)


@virtual_time
async def test_a_cancelled_item_is_skipped_and_a_cancelled_batch_is_cancelled() -> None:
    loop = PollLoop("tests", Queue().work, every=1)
    done = await loop.for_each(range(2), 1, striking(asyncio.CancelledError(), None))

    async def slow(item: int) -> None:
        await asyncio.sleep(100)

    async with asyncio.TaskGroup() as tasks:
        batch = tasks.create_task(loop.for_each(range(2), 1, slow))
        await asyncio.sleep(1)
        batch.cancel()

    assert done == [1]
    assert (batch.cancelled(), now()) == (True, 1.0)


# ---- many services -------------------------------------------------------------------------------------------------


@virtual_time
async def test_a_bug_in_one_service_asks_for_a_stop_while_the_others_go_on() -> None:
    broken, whole = Queue(), Queue()
    broken.errors = [LookupError("x")]
    stop = asyncio.Event()
    services = [PollLoop("broken", broken.work, every=1), PollLoop("whole", whole.work, every=1)]

    async def serve() -> None:
        async with running(services, stop):
            await stop.wait()
            await asyncio.sleep(10)

    with pytest.raises(EndedByBug, match="the service broken"):
        await serve()

    assert len(whole.worked_at) > 5


@virtual_time
async def test_an_error_of_the_block_arrives_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with running([PollLoop("whole", Queue().work, every=1)], asyncio.Event()):
            raise ZeroDivisionError


@virtual_time
async def test_services_run_together_until_they_are_cancelled() -> None:
    queues = Queue(), Queue()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run_all([PollLoop("tests", queue.work, every=1) for queue in queues]))
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.wait([task])

    assert task.cancelled()
    assert all(len(queue.worked_at) > 3 for queue in queues)
