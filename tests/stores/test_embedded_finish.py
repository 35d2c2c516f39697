"""External verbs on the embedded engine: the verdict and the token's move are one commit, with those of others."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import uuid4

import pytest

from tests.support.job_life import carried, crash, forked, started
from tests.support.ledger import Provider, ledger_registry
from tests.support.rig import Rig, opened
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.embedded.instance_cache import InstanceCache
from verbworker.engine.embedded.job_completion import Completion
from verbworker.errors import CommandInvalid, StoreUnavailable
from verbworker.job.failpoint import Point
from verbworker.job.frame import FrameState
from verbworker.job.job import Job

DOMAIN = "ledger"
SEND, BOOK = f"{DOMAIN}.send", f"{DOMAIN}.book"


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def rig(dsn: str, provider: Provider) -> AsyncIterator[Rig]:
    async with opened(dsn, dsn, ledger_registry(provider, DOMAIN)) as rig:
        yield rig


async def waiting(rig: Rig) -> list[str]:
    rows = await rig.database.fetch("SELECT type FROM verbworker_engine.job ORDER BY type")
    return [row["type"] for row in rows]


async def taken(rig: Rig, cases: int, verb: str = "send") -> list[Job]:
    """The first jobs of some cases, taken by a worker that has not begun."""
    for _ in range(cases):
        await started(rig, DOMAIN, verb, "annotate")
    return await rig.take(f"{DOMAIN}.{verb}", limit=cases)


@pytest.mark.req("TOK-07", "EVO-16")
async def test_verdict_token_and_acknowledgement_are_one_commit(rig: Rig) -> None:
    (job,) = await taken(rig, 1)

    await rig.executor.execute(job)

    frame = await rig.frame(job)
    rows = await rig.database.fetch(
        "SELECT xmin::text AS by FROM verbworker_engine.job UNION ALL SELECT xmin::text FROM verbworker.job_frame"
        " UNION ALL SELECT xmin::text FROM verbworker.payload_head"
    )
    assert (frame.state, frame.acked_at is not None) == (FrameState.COMPLETED, True)
    assert await waiting(rig) == [f"{DOMAIN}.annotate"]
    assert len({row["by"] for row in rows}) == 1


@pytest.mark.req("TOK-07", "TST-10")
@pytest.mark.parametrize(
    ("point", "state", "left"), [(Point.PERFORMED, "started", "send"), (Point.POPPED, "completed", "annotate")]
)
async def test_a_worker_that_dies_leaves_both_or_neither(rig: Rig, point: Point, state: str, left: str) -> None:
    (job,) = await taken(rig, 1)

    await crash(rig, job, point)

    assert (await rig.frame(job)).state == state
    assert await waiting(rig) == [f"{DOMAIN}.{left}"]


async def test_many_are_finished_by_one_statement(rig: Rig) -> None:
    sizes = note_batches(rig)
    jobs = await taken(rig, 20)

    await asyncio.gather(*map(rig.executor.execute, jobs))

    assert [(await rig.frame(job)).acked_at is not None for job in jobs] == [True] * 20
    assert await waiting(rig) == [f"{DOMAIN}.annotate"] * 20
    assert sum(sizes) == 20
    assert len(sizes) < 10


async def test_what_no_longer_fits_is_left_out_and_the_rest_of_its_batch_is_finished(
    rig: Rig, provider: Provider
) -> None:
    sizes = note_batches(rig)
    fine, cancelled, fenced, held = jobs = await taken(rig, 4, "overwrite")
    provider.hold()
    running = [asyncio.create_task(rig.executor.execute(job)) for job in jobs]
    await until_claimed(rig, 4)
    await rig.engine.cancel(cancelled.process_instance_key)
    change = "UPDATE verbworker.job_frame SET owner = $2, epoch = epoch + 1 WHERE job_key = $1 AND state = 'started'"
    await rig.database.execute(change, fenced.key, uuid4())
    await rig.database.execute("UPDATE verbworker_engine.job SET is_held = true WHERE job_key = $1", held.key)

    provider.may_go_on.set()
    await asyncio.gather(*running)
    await rig.frames.flush()

    frames = [await rig.frame(job) for job in jobs]
    assert [frame.state for frame in frames] == ["completed", "completed", "started", "completed"]
    assert [frame.acked_at is not None for frame in frames] == [True, True, False, False]
    assert await waiting(rig) == [f"{DOMAIN}.annotate", fenced.type, held.type]
    assert carried(await rig.work(f"{DOMAIN}.annotate"))["note"] == "overwritten"
    assert sum(sizes) == 1
    assert frames[0].job_key == fine.key


@pytest.mark.req("TST-10")
@pytest.mark.parametrize("is_written", [True, False])
async def test_a_lost_answer_is_looked_up(
    rig: Rig, provider: Provider, monkeypatch: pytest.MonkeyPatch, *, is_written: bool
) -> None:
    (job,) = await taken(rig, 1)
    finish, lost = Completion.finish, list[bool]()

    async def lose_answer(self: Completion, verdict: Sequence[object]) -> bool:
        if lost or is_written:
            answer = await finish(self, verdict)
            if lost:
                return answer
        lost.append(True)
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(Completion, "finish", lose_answer)
    await rig.executor.execute(job)

    frame = await rig.frame(job)
    assert lost
    assert (frame.state, frame.runs, frame.acked_at is not None) == (FrameState.COMPLETED, 1, True)
    assert len(provider.calls) == 1
    assert await waiting(rig) == [f"{DOMAIN}.annotate"]


async def test_a_job_that_the_engine_refuses_to_complete_keeps_its_verdict(
    rig: Rig, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = await taken(rig, 1)

    async def refuse(*_: object) -> Completion:
        raise CommandInvalid("the model loops endlessly")

    monkeypatch.setattr(EmbeddedEngine, "prepare_completion", refuse)
    await rig.executor.execute(job)

    assert (await rig.frame(job)).state is FrameState.COMPLETED
    assert len(provider.calls) == 1


@pytest.mark.req("X-41", "TOK-12")
async def test_branches_that_end_at_once_are_merged_and_join_once(rig: Rig, provider: Provider) -> None:
    await forked(rig, DOMAIN, "overwrite", "book")
    await rig.database.execute("CREATE TABLE ledger (idempotency_key text, amount integer, epoch bigint)")
    jobs = [*await rig.take(f"{DOMAIN}.overwrite"), *await rig.take(BOOK)]

    await asyncio.gather(*map(rig.executor.execute, jobs))

    assert [(await rig.frame(job)).state for job in jobs] == [FrameState.COMPLETED] * 2
    assert await waiting(rig) == [SEND]
    (job,) = await rig.take(SEND)
    assert (carried(job)["note"], carried(job)["booked"]) == ("overwritten", True)


async def test_turns_at_an_instance_come_in_order_and_a_cancelled_one_is_passed_over() -> None:
    cache, order = InstanceCache(), list[str]()
    first_may_end = asyncio.Event()

    async def act(name: str) -> None:
        async with cache.turn(7):
            order.append(f"{name} begins")
            if name == "first":
                await first_may_end.wait()
            order.append(f"{name} ends")

    tasks = [asyncio.create_task(act(name)) for name in ("first", "second", "third")]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == ["first begins"]

    first_may_end.set()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert order == ["first begins", "first ends", "third begins", "third ends"]
    assert cache._turns == {}


def note_batches(rig: Rig) -> list[int]:
    """How many each statement finished."""
    assert isinstance(rig.engine, EmbeddedEngine)
    service, sizes = rig.engine._finishes.service, list[int]()
    write = service._write

    async def note(items: list[Any]) -> list[int]:
        answers = await write(items)
        sizes.append(sum(1 for answer in answers if answer))
        return answers

    service._write = note
    return sizes


async def until_claimed(rig: Rig, count: int) -> None:
    """Wait for the frames of so many jobs."""
    async with asyncio.timeout(20):
        while len(await rig.database.fetch("SELECT 1 FROM verbworker.job_frame")) < count:  # noqa: ASYNC110  # rows call nobody
            await asyncio.sleep(0.02)
