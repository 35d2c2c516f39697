"""A transactional verb on the embedded engine: its writes, its verdict and the token's move are one commit."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.support.job_life import carried, crash, forked, started
from tests.support.ledger import EFFECTS, TABLE, Provider, ledger_registry
from tests.support.rig import RecordingEmbedded, Rig, opened
from verbworker.engine.embedded.job_completion import Completion
from verbworker.engine.protocol import SameDatabase
from verbworker.errors import StoreUnavailable
from verbworker.job.failpoint import Point
from verbworker.job.frame import FrameState
from verbworker.stores.database import Database
from verbworker.testing.kit import Crash

DOMAIN = "ledger"


@pytest.fixture
async def rig(dsn: str) -> AsyncIterator[Rig]:
    async with opened(dsn, dsn, ledger_registry(Provider(), DOMAIN)) as rig:
        await rig.database.execute(TABLE)
        yield rig


async def effects(rig: Rig) -> int:
    row = await rig.database.fetchrow(EFFECTS)
    assert row is not None
    return int(row[0])


async def jobs(rig: Rig) -> list[str]:
    rows = await rig.database.fetch("SELECT type FROM verbworker_engine.job ORDER BY job_key")
    return [row["type"] for row in rows]


def stop_before_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the worker die after the token was moved and before anything is committed."""
    for name in ("finish_in", "save_in"):
        monkeypatch.setattr(Completion, name, _dying(getattr(Completion, name)))


def _dying(save: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    async def die(*args: Any) -> object:
        if await save(*args) != "refused":
            raise Crash
        return "refused"

    return die


def test_the_engine_says_that_it_shares_the_verbs_database(dsn: str) -> None:
    engine = RecordingEmbedded(Database(dsn, size=1), engine_id="here")

    assert isinstance(engine, SameDatabase)
    assert engine.shares(Database(dsn, size=2))
    assert not engine.shares(Database("postgresql://elsewhere/cases", size=2))


@pytest.mark.req("EVO-16", "EVO-21", "TOK-07")
async def test_effect_verdict_token_and_acknowledgement_are_one_commit(rig: Rig) -> None:
    await started(rig, DOMAIN, "book", "annotate")

    job = await rig.work(f"{DOMAIN}.book")

    frame = await rig.frame(job)
    assert (await effects(rig), frame.state) == (1, FrameState.COMPLETED)
    assert frame.acked_at is not None
    assert await jobs(rig) == [f"{DOMAIN}.annotate"]
    rows = await rig.database.fetch(
        "SELECT xmin::text AS by FROM verbworker_engine.job UNION ALL SELECT xmin::text FROM ledger"
        " UNION ALL SELECT xmin::text FROM verbworker.job_frame"
    )
    assert len({row["by"] for row in rows}) == 1


async def test_the_next_job_names_the_tenant_of_the_case(rig: Rig) -> None:
    await started(rig, DOMAIN, "book", "annotate")
    before = await rig.database.fetch("SELECT type, case_tenant FROM verbworker_engine.job")

    await rig.work(f"{DOMAIN}.book")

    after = await rig.database.fetch("SELECT type, case_tenant FROM verbworker_engine.job")
    tenant = (await rig.database.fetch("SELECT tenant_id FROM verbworker.workflow_instance"))[0]["tenant_id"]
    assert tenant
    assert [tuple(row) for row in (*before, *after)] == [(f"{DOMAIN}.book", tenant), (f"{DOMAIN}.annotate", tenant)]


@pytest.mark.req("TOK-07", "TST-10")
async def test_a_worker_that_dies_before_its_verb_is_stored_leaves_nothing(rig: Rig) -> None:
    await started(rig, DOMAIN, "book", "annotate")
    (job,) = await rig.take(f"{DOMAIN}.book")

    await crash(rig, job, Point.PERFORMED)

    assert (await effects(rig), (await rig.frame(job)).state) == (0, FrameState.STARTED)
    assert await jobs(rig) == [f"{DOMAIN}.book"]


@pytest.mark.req("TOK-07", "TST-10")
async def test_a_worker_that_dies_between_the_tokens_move_and_the_commit_leaves_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(rig, DOMAIN, "book", "annotate")
    (job,) = await rig.take(f"{DOMAIN}.book")
    stop_before_commit(monkeypatch)

    with pytest.raises(Crash):
        await rig.executor.execute(job)

    assert (await effects(rig), (await rig.frame(job)).state) == (0, FrameState.STARTED)
    assert await jobs(rig) == [f"{DOMAIN}.book"]


@pytest.mark.req("TOK-07", "TST-10")
async def test_a_worker_that_dies_after_the_commit_leaves_everything(rig: Rig) -> None:
    await started(rig, DOMAIN, "book", "annotate")
    (job,) = await rig.take(f"{DOMAIN}.book")

    await crash(rig, job, Point.POPPED)

    frame = await rig.frame(job)
    assert (await effects(rig), frame.state) == (1, FrameState.COMPLETED)
    assert frame.acked_at is not None
    assert carried(await rig.work(f"{DOMAIN}.annotate"))["booked"] is True


async def test_a_job_that_is_gone_keeps_what_its_verb_did_and_is_acknowledged(rig: Rig) -> None:
    begun = await started(rig, DOMAIN, "book", "annotate")
    (job,) = await rig.take(f"{DOMAIN}.book")
    await rig.engine.cancel(begun.instance_key)

    await rig.executor.execute(job)
    await rig.frames.flush()

    frame = await rig.frame(job)
    assert (await effects(rig), frame.state) == (1, FrameState.COMPLETED)
    assert frame.acked_at is not None
    assert await jobs(rig) == []


@pytest.mark.req("X-41", "TOK-12")
async def test_two_branches_in_one_commit_each_join_once(rig: Rig) -> None:
    await forked(rig, DOMAIN, "annotate", "book")

    await rig.work(f"{DOMAIN}.annotate")
    await rig.work(f"{DOMAIN}.book")

    assert await jobs(rig) == [f"{DOMAIN}.send"]


@pytest.mark.req("TOK-07", "TST-10")
async def test_a_verb_that_writes_nothing_is_one_statement_whose_lost_answer_is_looked_up(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(rig, DOMAIN, "annotate", "book")
    (job,) = await rig.take(f"{DOMAIN}.annotate")
    finish_in, states = Completion.finish_in, list[bool]()

    async def lose_answer(self: Completion, connection: Any, verdict: Any) -> str:
        states.append(connection.is_in_transaction())
        await finish_in(self, connection, verdict)
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(Completion, "finish_in", lose_answer)
    await rig.executor.execute(job)

    frame = await rig.frame(job)
    assert states == [False]
    assert (frame.state, frame.runs, frame.acked_at is not None) == (FrameState.COMPLETED, 1, True)
    assert await jobs(rig) == [f"{DOMAIN}.book"]
