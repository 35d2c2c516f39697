"""A whole worker on an engine in memory and a real database: how it takes jobs, and how it ends without losing one."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.support.databases import plain
from tests.support.eventually import eventually
from tests.support.ledger import EFFECTS, TABLE, Account
from tests.support.start import begin
from tests.support.worker_boot import OTHER, VERB, ToldEngine, one_verb
from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.background.service_health import ServiceHealth
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call
from verbworker.engine.protocol import Ask
from verbworker.errors import EndedByBug, EngineUnavailable
from verbworker.job.job import RESERVED, Job
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames
from verbworker.testing.memory import JobState
from verbworker.work.feeds.leases import FIRST_TIMEOUT_MS, Leases
from verbworker.work.feeds.worker import Pace, Worker
from verbworker.work.jobs.executor import Databases, Executor
from verbworker.work.jobs.perform import VerbRun
from verbworker.work.jobs.verdicts import JobResults, Relay
from verbworker.work.upkeep.retention import Archiver

TIMEOUT = 60.0
LEASE = timedelta(seconds=30)


class GatedEngine(ToldEngine):
    """An engine whose polls wait for the test, and which tells when one is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.polled = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.polls = 0
        self.asked: set[Ask] = set()
        self.outages = 0
        self.is_broken = False

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        self.polls += 1
        self.asked.add(ask)
        self.polled.set()
        await self.may_answer.wait()
        if self.is_broken:
            raise LookupError("a bug")
        if self.outages:
            self.outages -= 1
            raise EngineUnavailable("away")
        return await super().activate(ask, limit, wait_ms)


@dataclass(slots=True)
class Shift:
    """A worker, what it stands on, and the word to stop."""

    worker: Worker
    engine: GatedEngine
    database: Database
    registry: Registry
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, count: int = 1) -> list[int]:
        """Start instances and return the keys of their jobs."""
        before = set(self.engine.jobs)
        for _ in range(count):
            await begin(self.database, self.engine, self.registry.workflows["desk.run"], Account().model_dump())
        return [key for key in self.engine.jobs if key not in before]

    async def column(self, key: int, name: str) -> Any:
        """One column of a frame."""
        row = await self.database.fetchrow(f"SELECT {name} FROM verbworker.job_frame WHERE job_key = $1", key)
        return None if row is None else row[0]

    async def settled(self, *keys: int, state: JobState = JobState.COMPLETED) -> None:
        """Return when the engine has these jobs in a state."""
        async with asyncio.timeout(TIMEOUT):
            await self.engine.until(lambda: all(self.engine.jobs[key].state is state for key in keys))


@asynccontextmanager
async def on_shift(
    dsn: str, registry: Registry, *, grace: float = TIMEOUT, streaming: bool = False, lease: timedelta = LEASE
) -> AsyncIterator[Shift]:
    """A worker that is built and not yet running."""
    engine = GatedEngine()
    pace = Pace(name="tests", grace=timedelta(seconds=grace), poll_wait=timedelta(seconds=1), streaming=streaming)
    with ThreadPoolExecutor(4) as threads:
        async with Database(dsn, size=6) as control, Database(dsn, size=4) as verbs:
            frames = Frames(control, engine_id=engine.engine_id, owner=uuid4(), lease=lease)
            leases = Leases(frames, engine, engine_timeout_ms=60_000)
            executor = Executor(registry, engine, frames, Databases(control, verbs), leases, VerbRun(threads))
            relay, reaper = Relay(frames, JobResults(engine, frames)), Archiver(frames)
            worker = Worker(registry, engine, frames, executor, leases, relay, reaper, pace)
            yield Shift(worker, engine, control, registry)


@asynccontextmanager
async def working(shift: Shift) -> AsyncIterator["asyncio.Task[None]"]:
    """The worker at work; in the end it drains."""
    async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(shift.worker.run(shift.stop))
        yield task
        shift.stop.set()


CUT_THE_FIRST_BOOT = """
CREATE SEQUENCE boots;
CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('boots') = 1 THEN
    PERFORM pg_terminate_backend(pg_backend_pid());
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER cut BEFORE INSERT ON verbworker.worker_boot FOR EACH ROW EXECUTE FUNCTION cut();
"""


class BlockingVerb:
    """Where verbs stand still until the test lets them go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Semaphore(0)
        self.may_go_on = asyncio.Event()
        self.calls = 0

    def external(self, **options: Any) -> Registry:
        async def send(account: Account) -> Account:
            await self._block()
            return account.model_copy(update={"sent": True})

        return one_verb(send, **options)

    def transactional(self, **options: Any) -> Registry:
        async def book(account: Account, call: Call) -> Account:
            await call.db.execute("INSERT INTO ledger (epoch) VALUES ($1)", call.epoch)
            await self._block()
            return account.model_copy(update={"note": "booked"})

        return one_verb(book, mode="transactional", **options)

    async def _block(self) -> None:
        self.calls += 1
        self.reached.release()
        await self.may_go_on.wait()


def make_unblocked() -> BlockingVerb:
    verb = BlockingVerb()
    verb.may_go_on.set()
    return verb


# ---- at work -------------------------------------------------------------------------------------------------------


async def test_a_worker_whose_first_word_to_the_database_is_cut_off_says_it_again(dsn: str) -> None:
    async with on_shift(dsn, make_unblocked().external()) as shift:
        await shift.database.execute(CUT_THE_FIRST_BOOT)
        async with working(shift):
            (key,) = await shift.start()
            await shift.settled(key)

        boots = await shift.database.fetch("SELECT name FROM verbworker.worker_boot")
        assert [row["name"] for row in boots] == ["tests"]


@pytest.mark.req("JOB-04", "JOB-15")
@pytest.mark.parametrize("streaming", [True, False])
async def test_every_job_is_worked_off_and_acknowledged(dsn: str, streaming: bool) -> None:
    verb = make_unblocked()
    async with on_shift(dsn, verb.external(concurrency=3), streaming=streaming) as shift:
        early = await shift.start(10)
        async with working(shift):
            late = await shift.start(10)
            await shift.settled(*early, *late)
        unacknowledged: Any = await shift.database.fetchrow(
            "SELECT count(*) FROM verbworker.job_frame WHERE acked_at IS NULL"
        )

        assert (verb.calls, unacknowledged[0]) == (20, 0)


async def test_no_more_verbs_run_at_once_than_their_author_allows(dsn: str) -> None:
    verb = BlockingVerb()
    async with on_shift(dsn, verb.external(concurrency=3)) as shift:
        keys = await shift.start(7)
        async with working(shift):
            for _ in range(3):
                await verb.reached.acquire()
            at_once = (verb.calls, shift.worker.in_flight)
            verb.may_go_on.set()
            await shift.settled(*keys)

        assert at_once == (3, 3)
        assert verb.calls == 7


@pytest.mark.req("ADP-04")
async def test_a_gateway_that_is_away_for_a_while_ends_nothing(dsn: str) -> None:
    verb = make_unblocked()
    async with on_shift(dsn, verb.external()) as shift:
        shift.engine.outages = 5
        (key,) = await shift.start()
        async with working(shift) as task:
            await shift.settled(key)

            assert not task.done()


async def test_a_worker_tells_whether_it_hears_from_the_engine(dsn: str) -> None:
    async with on_shift(dsn, make_unblocked().external()) as shift:
        before = (shift.worker.seconds_since_poll(), shift.worker.is_draining)
        (key,) = await shift.start()
        async with working(shift):
            await shift.settled(key)
            during = shift.worker.seconds_since_poll()

        assert before == (float("inf"), False)
        assert during < TIMEOUT
        assert shift.worker.is_draining


async def test_a_bug_in_a_service_ends_the_worker_after_what_runs_was_finished(dsn: str) -> None:
    verb = BlockingVerb()
    async with on_shift(dsn, verb.external()) as shift:

        async def broken() -> int:
            if verb.calls:
                raise ZeroDivisionError
            return 0

        shift.worker.services += (PollLoop("broken", broken, every=0.01),)
        (key,) = await shift.start()
        async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as tasks:
            working = tasks.create_task(_outcome(shift.worker.run(shift.stop)))
            await verb.reached.acquire()
            await shift.stop.wait()
            verb.may_go_on.set()
            ended = await working

        assert str(ended).startswith("a bug ended the service broken: ZeroDivisionError in test_worker.py, line ")
        assert isinstance(ended, EndedByBug)
        assert (await shift.column(key, "state"), await shift.column(key, "ack_result")) == ("completed", "ok")


async def test_a_bug_in_a_feed_is_shown_and_the_feed_goes_on(dsn: str) -> None:
    verb = make_unblocked()
    async with on_shift(dsn, verb.external()) as shift, working(shift):
        shift.engine.is_broken = True
        await eventually(lambda: _has_troubles(shift))
        shift.engine.is_broken = False
        (key,) = await shift.start()
        await shift.settled(key)

        await eventually(lambda: _has_no_troubles(shift))
        assert shift.worker.in_flight == 0


async def _has_troubles(shift: Shift) -> bool:
    return any("LookupError" in trouble for trouble in shift.worker.troubles())


async def _has_no_troubles(shift: Shift) -> bool:
    return shift.worker.troubles() == []


async def _outcome(work: Coroutine[Any, Any, None]) -> Exception | None:
    try:
        await work
    except Exception as error:
        return error
    return None


# ---- the end -------------------------------------------------------------------------------------------------------


async def test_a_worker_that_is_stopped_before_it_begins_takes_nothing(dsn: str) -> None:
    async with on_shift(dsn, make_unblocked().external(), streaming=True) as shift:
        (key,) = await shift.start()
        shift.stop.set()
        await shift.worker.run(shift.stop)

        assert (shift.engine.polls, shift.engine.jobs[key].deliveries) == (0, 0)


async def test_being_told_to_stop_twice_is_being_told_once(dsn: str) -> None:
    async with on_shift(dsn, make_unblocked().external()) as shift:
        (key,) = await shift.start()
        async with working(shift) as task:
            await shift.settled(key)
            shift.stop.set()
            await task
            shift.stop.set()

        assert shift.worker.in_flight == 0


async def test_a_worker_without_verbs_waits_until_it_is_stopped(dsn: str) -> None:
    async with on_shift(dsn, Registry()) as shift:
        shift.stop.set()
        await shift.worker.run(shift.stop)

        assert shift.worker.is_draining


@pytest.mark.req("JOB-01")
async def test_jobs_that_arrive_while_it_ends_are_given_back_and_cost_nothing(dsn: str) -> None:
    verb = make_unblocked()
    async with on_shift(dsn, verb.external()) as shift:
        keys = await shift.start(3)
        shift.engine.may_answer.clear()
        async with working(shift) as task:
            await shift.engine.polled.wait()
            shift.stop.set()
            await _until(lambda: shift.worker.is_draining)
            shift.engine.may_answer.set()
            await task

        known = [shift.engine.jobs[key] for key in keys]
        assert [(job.deliveries, job.state, job.job.retries) for job in known] == [(1, JobState.ACTIVATABLE, 3)] * 3
        assert [await shift.column(key, "state") for key in keys] == [None] * 3
        assert verb.calls == 0


async def test_what_runs_is_finished(dsn: str) -> None:
    verb = BlockingVerb()
    async with on_shift(dsn, verb.external()) as shift:
        (key,) = await shift.start()
        async with working(shift) as task:
            await verb.reached.acquire()
            shift.stop.set()
            await _until(lambda: shift.worker.is_draining)
            verb.may_go_on.set()
            await task

        assert (await shift.column(key, "state"), await shift.column(key, "ack_result")) == ("completed", "ok")
        assert shift.engine.jobs[key].state is JobState.COMPLETED


async def test_what_runs_keeps_its_lease_and_its_engine_timeout_through_the_drain(dsn: str) -> None:
    verb = BlockingVerb()
    async with on_shift(dsn, verb.external(), lease=timedelta(milliseconds=600)) as shift:
        (key,) = await shift.start()
        async with working(shift) as task:
            await verb.reached.acquire()
            shift.stop.set()
            await _until(lambda: shift.worker.is_draining)
            leases: set[object] = set()
            extensions = len(shift.engine.extended)
            while len(leases) < 4 or len(shift.engine.extended) < extensions + 3:
                leases.add(await shift.column(key, "lease_until"))
                await asyncio.sleep(0.01)
            verb.may_go_on.set()
            await task

        # Another worker could claim neither: the lease was never over, and the engine never gave the job out again.
        assert [await shift.column(key, name) for name in ("state", "epoch", "deliveries")] == ["completed", 1, 1]
        assert shift.engine.jobs[key].state is JobState.COMPLETED


async def test_a_job_that_waits_for_its_claim_is_extended_too(dsn: str) -> None:
    async def extended() -> list[tuple[int, int]]:
        return list(shift.engine.extended)

    async with on_shift(dsn, make_unblocked().external()) as shift:
        (key,) = await shift.start()
        async with plain(dsn) as connection:
            await connection.execute("BEGIN")
            await connection.execute("LOCK TABLE verbworker.job_frame IN ACCESS EXCLUSIVE MODE")
            async with working(shift):
                first = await eventually(extended)
                await connection.execute("ROLLBACK")
                await shift.settled(key)

        assert first == [(key, 60_000)]
        assert shift.engine.jobs[key].deliveries == 1


@pytest.mark.req("FAIL-01")
async def test_after_the_grace_a_transaction_is_rolled_back_and_its_job_goes_back_at_once(dsn: str) -> None:
    verb = BlockingVerb()
    async with on_shift(dsn, verb.transactional(), grace=0.05) as shift:
        await shift.database.execute(TABLE)
        (key,) = await shift.start()
        async with working(shift) as task:
            await verb.reached.acquire()
            shift.stop.set()
            await task
        effects: Any = await shift.database.fetchrow(EFFECTS)

        assert effects[0] == 0
        assert (await shift.column(key, "state"), await shift.column(key, "runs")) == ("failed", 0)
        assert (shift.engine.jobs[key].state, shift.engine.jobs[key].job.retries) == (JobState.ACTIVATABLE, 3)


async def test_after_the_grace_an_external_call_stays_as_it_is(dsn: str) -> None:
    verb = BlockingVerb()
    async with on_shift(dsn, verb.external(), grace=0.05) as shift:
        (key,) = await shift.start()
        async with working(shift) as task:
            await verb.reached.acquire()
            shift.stop.set()
            await task

        assert (await shift.column(key, "state"), shift.engine.failures) == ("started", [])


async def test_what_does_not_end_even_then_is_cut_off(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verbworker.work.feeds.worker._STOP_GRACE", 0.05)
    verb = BlockingVerb()

    async def stubborn(account: Account) -> Account:
        verb.reached.release()
        try:
            await verb.may_go_on.wait()
        except asyncio.CancelledError:
            await verb.may_go_on.wait()  # as code does that believes itself important
        return account

    async with on_shift(dsn, one_verb(stubborn), grace=0.05) as shift:
        (key,) = await shift.start()
        async with working(shift) as task:
            await verb.reached.acquire()
            shift.stop.set()
            await task

        assert await shift.column(key, "state") == "started"
        assert shift.worker.in_flight == 0


class SlowToEnd:
    """A service whose end takes longer than a blocked loop is borne, unless nothing watches the loop any more."""

    name = "slow to end"

    def __init__(self, log: pytest.LogCaptureFixture) -> None:
        self.health = ServiceHealth(self.name)
        self._log = log

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await eventually(self._is_clear)

    async def _is_clear(self) -> bool:
        is_watched = any(thread.name == "watchdog" for thread in threading.enumerate())
        return not is_watched or "is blocked" in self._log.text


async def test_a_service_that_is_slow_to_end_does_not_count_as_a_blocked_loop(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with on_shift(dsn, make_unblocked().external(), lease=timedelta(seconds=3)) as shift:
        shift.worker.services = (*shift.worker.services, SlowToEnd(caplog))
        async with working(shift):
            await shift.engine.polled.wait()

    assert "is blocked" not in caplog.text


async def test_in_flight_is_counted_and_ends_at_none(dsn: str) -> None:
    def in_flight() -> float | None:
        return metrics.REGISTRY.get_sample_value("verbworker_in_flight", {"verb": VERB})

    verb = BlockingVerb()
    before = in_flight() or 0.0
    async with on_shift(dsn, verb.external()) as shift:
        keys = await shift.start(2)
        async with working(shift):
            await verb.reached.acquire()
            await verb.reached.acquire()
            during = in_flight()
            verb.may_go_on.set()
            await shift.settled(*keys)

    assert during == before + 2
    assert in_flight() == before


@pytest.mark.req("FAIL-11", "JOB-20")
async def test_a_verb_is_asked_for_with_its_own_timeout_the_reserved_variables_and_its_flags_alone(dsn: str) -> None:
    async def act(account: Account) -> Account:
        return account

    # Shorter than the first timeout that every job gets, which would hide it.
    async with on_shift(dsn, one_verb(act, timeout=timedelta(seconds=2))) as shift, working(shift):
        await _until(lambda: len(shift.engine.asked) == 2, turns=100_000)

    asked = {ask.type: (ask.timeout_ms, tuple(ask.variables)) for ask in shift.engine.asked}
    names = {verb: (*RESERVED, *shift.registry.flags_of(verb)) for verb in (VERB, OTHER)}
    assert asked == {VERB: (2_000, names[VERB]), OTHER: (FIRST_TIMEOUT_MS, names[OTHER])}
    assert {name[:5] for name in set().union(*names.values()) - set(RESERVED)} <= {"orch_"}


async def _until(holds: Callable[[], bool], *, turns: int = 1000) -> None:
    """Return when something of the worker's own holds; it comes within a few turns of the loop."""
    for _ in range(turns):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")
