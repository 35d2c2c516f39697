"""One performance of a verb: what it is told, what ends it, and what its end is called."""

import asyncio
import contextlib
import gc
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from logging import LoggerAdapter
from typing import Any

import pytest

from tests.support.boundary_jobs import CLAIM, ENTRY, NOW, Case, entered, make_registry
from tests.support.frames import make_job
from verbworker.contract.verb import Call
from verbworker.errors import Fenced, OutcomeUnknown, TransientExternal, WorkerStopping
from verbworker.job.frame import Claim
from verbworker.payload.boundary import AdmittedJob
from verbworker.work.feeds.leases import Abandoned, JobVanished, RunningJob, StopReason
from verbworker.work.jobs.containment import contain_job, contain_verbs
from verbworker.work.jobs.perform import VerbRun

LONG = timedelta(minutes=1)
SHORT = timedelta(milliseconds=20)
SECRET = "iban DE89 3704"
TRANSACTIONAL = {"mode": "transactional"}
EXTERNAL = {"mode": "external"}


@pytest.fixture
async def threads() -> AsyncIterator[ThreadPoolExecutor]:
    contain_verbs(asyncio.get_running_loop())
    with ThreadPoolExecutor(2) as pool:
        yield pool


def make_running_job(claim: Claim = CLAIM) -> RunningJob:
    return RunningJob(claim, make_job(), asyncio.get_running_loop().time() + 60)


def make_entered(function: Callable[..., Any], options: Any = None, claim: Claim = CLAIM) -> AdmittedJob:
    return entered(make_registry(function, options={**EXTERNAL, **(options or {})}), claim=claim)


async def performed(
    threads: ThreadPoolExecutor,
    job: AdmittedJob,
    *,
    claim: Claim = CLAIM,
    running_job: RunningJob | None = None,
    limit: timedelta = LONG,
    connection: Any = None,
) -> object:
    return await VerbRun(threads).perform(job, claim, running_job or make_running_job(claim), limit, connection)


class BlockingVerb:
    """A verb that stands still until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.calls = 0

    async def block(self, case: Case) -> Case:
        self.calls += 1
        self.reached.set()
        await self.may_go_on.wait()
        return case


# ---- what a verb is told -------------------------------------------------------------------------------------------


@pytest.mark.req("JOB-06", "REG-12")
async def test_a_verb_is_told_its_case_and_its_call(threads: ThreadPoolExecutor) -> None:
    told: list[tuple[Call, Case]] = []

    async def work(call: Call, case: Case) -> Case:
        told.append((call, case))
        return case

    connection: Any = object()
    claim = replace(CLAIM, runs=2, epoch=5)
    answer = await performed(threads, make_entered(work), claim=claim, connection=connection)
    ((call, case),) = told

    assert answer is case
    assert (call.verb, call.entry_id, call.tenant_id, call.idempotency_key) == ("kyc.check", ENTRY, "t1", "vw1-key")
    assert (call.attempt, call.epoch, call.deadline, call.db) == (2, 5, NOW + LONG, connection)
    assert isinstance(call.log, LoggerAdapter)
    assert call.log.extra == {"verb": "kyc.check", "entry_id": str(ENTRY), "attempt": 2}


async def test_a_verb_that_is_not_async_runs_on_a_thread(threads: ThreadPoolExecutor) -> None:
    seen: list[threading.Thread] = []

    def work(case: Case) -> Case:
        seen.append(threading.current_thread())
        return case

    await performed(threads, make_entered(work))

    assert seen != [threading.current_thread()]


async def test_a_verb_on_a_thread_sees_the_context_it_was_called_in(threads: ThreadPoolExecutor) -> None:
    trace: ContextVar[str] = ContextVar("trace", default="none")
    seen: list[str] = []

    def work(case: Case) -> Case:
        seen.append(trace.get())
        return case

    trace.set("span-1")
    await performed(threads, make_entered(work))

    assert seen == ["span-1"]


# ---- asking first --------------------------------------------------------------------------------------------------


class Asked:
    """A verb whose other side can be asked, and who was asked what."""

    def __init__(self, known: Case | None) -> None:
        self.log: list[str] = []
        self._known = known

    async def work(self, case: Case) -> Case:
        self.log.append(f"work on {case.note!r}")
        return case

    def ask(self, asked: Case) -> Case | None:
        self.log.append("ask")
        asked.note = "changed by the probe"
        return self._known

    def entered(self) -> AdmittedJob:
        async def work(case: Case) -> Case:
            return await self.work(case)

        def ask(asked: Case) -> Case | None:
            return self.ask(asked)

        return make_entered(work, {"on_unknown": "probe", "probe": ask})


async def test_the_first_run_asks_nobody(threads: ThreadPoolExecutor) -> None:
    asked = Asked(None)
    await performed(threads, asked.entered())

    assert asked.log == ["work on ''"]


LATER = [replace(CLAIM, epoch=2, runs=2), replace(CLAIM, epoch=2, runs=1)]


@pytest.mark.parametrize("claim", LATER, ids=["second run", "given back or released, and counted from the start"])
async def test_a_later_run_asks_before_it_repeats(threads: ThreadPoolExecutor, claim: Claim) -> None:
    known = Case(amount=9)
    asked = Asked(known)

    assert await performed(threads, asked.entered(), claim=claim) is known
    assert asked.log == ["ask"]


async def test_a_later_run_that_finds_nothing_works_on_the_case_as_it_came(threads: ThreadPoolExecutor) -> None:
    asked = Asked(None)
    await performed(threads, asked.entered(), claim=LATER[0])

    assert asked.log == ["ask", "work on ''"]


# ---- its own end ---------------------------------------------------------------------------------------------------


async def test_a_verbs_own_error_passes_as_it_is(threads: ThreadPoolExecutor) -> None:
    async def work(case: Case) -> Case:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await performed(threads, make_entered(work))


async def test_a_verbs_own_timeout_is_not_its_limit(threads: ThreadPoolExecutor) -> None:
    async def work(case: Case) -> Case:
        raise TimeoutError(SECRET)

    with pytest.raises(TimeoutError) as caught:
        await performed(threads, make_entered(work))

    assert type(caught.value) is TimeoutError


async def _cancels_itself(case: Case) -> Case:
    raise asyncio.CancelledError


async def _ends_the_process(case: Case) -> Case:
    raise SystemExit(3)


def _ends_the_process_on_a_thread(case: Case) -> Case:
    raise SystemExit(3)


def _interrupts_on_a_thread(case: Case) -> Case:
    raise KeyboardInterrupt


async def _leave() -> None:
    raise SystemExit("no licence")


async def _a_task_of_it_ends_the_process(case: Case) -> Case:
    await asyncio.gather(_leave(), asyncio.sleep(0.01))
    return case


@pytest.mark.req("FAIL-12")
@pytest.mark.parametrize(
    ("work", "code"),
    [
        (_cancels_itself, "Cancelled"),
        (_a_task_of_it_ends_the_process, "SystemExit"),
        (_ends_the_process, "SystemExit"),
        (_ends_the_process_on_a_thread, "SystemExit"),
        (_interrupts_on_a_thread, "KeyboardInterrupt"),
    ],
)
async def test_a_verb_that_means_the_whole_process_fails_alone(
    threads: ThreadPoolExecutor, work: Any, code: str
) -> None:
    with pytest.raises(TransientExternal) as caught:
        await performed(threads, make_entered(work))

    assert caught.value.code == code


def _closes_generators_on_a_thread(case: Case) -> Case:
    raise GeneratorExit


async def _closes_generators_on_a_thread_of_its_own(case: Case) -> Case:
    return await asyncio.to_thread(_closes_generators_on_a_thread, case)


async def _closes_generators_in_a_task(case: Case) -> Case:
    async def boom() -> None:
        raise GeneratorExit

    await asyncio.create_task(boom())
    return case


@pytest.mark.parametrize(
    "work",
    [_closes_generators_on_a_thread, _closes_generators_on_a_thread_of_its_own, _closes_generators_in_a_task],
)
async def test_a_future_that_holds_generator_exit_fails_its_verb_alone(threads: ThreadPoolExecutor, work: Any) -> None:
    async def run() -> str:
        try:
            await performed(threads, make_entered(work))
        except TransientExternal as error:
            await asyncio.sleep(0)  # as the verdict is stored: a coroutine that is being closed cannot wait
            return error.code
        return "completed"

    async def job() -> str:
        return await run()  # the outermost coroutine of a task gets the error last; this one would be closed

    assert await asyncio.create_task(job()) == "GeneratorExit"


async def test_what_is_thrown_past_a_verbs_containment_ends_its_job_and_not_the_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def inner() -> None:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(GeneratorExit())
        await future

    async def job() -> None:
        with contextlib.suppress(TransientExternal):
            await inner()
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as jobs:
        jobs.create_task(contain_job(job(), "kyc.check"))

    assert [record.__dict__["verb"] for record in caplog.records] == ["kyc.check"]


@pytest.mark.parametrize("error", [SystemExit(5), KeyboardInterrupt()])
async def test_a_task_that_a_verb_leaves_behind_cannot_end_the_process(
    threads: ThreadPoolExecutor, error: BaseException
) -> None:
    left: list[asyncio.Task[None]] = []

    async def boom() -> None:
        raise error

    async def work(case: Case) -> Case:
        left.append(asyncio.create_task(boom()))
        return case

    await performed(threads, make_entered(work))
    await asyncio.wait(left)
    async with asyncio.TaskGroup() as tasks:
        ours = tasks.create_task(asyncio.sleep(0, "alive"))

    assert (type(left[0].exception()), ours.result()) == (TransientExternal, "alive")


def _runs_out(case: Case) -> Case:
    return next(iter([]))


async def _runs_out_async(case: Case) -> Case:
    return next(iter([]))


@pytest.mark.parametrize("work", [_runs_out, _runs_out_async])
async def test_an_iterator_that_ran_out_ends_the_verb_and_hangs_nobody(threads: ThreadPoolExecutor, work: Any) -> None:
    with pytest.raises(RuntimeError):
        async with asyncio.timeout(20):
            await performed(threads, make_entered(work))


# ---- ended from outside --------------------------------------------------------------------------------------------


@pytest.mark.req("POL-06")
@pytest.mark.parametrize(("options", "kind"), [(EXTERNAL, OutcomeUnknown), (TRANSACTIONAL, TimeoutError)])
async def test_a_verb_that_takes_too_long_is_ended(
    threads: ThreadPoolExecutor, options: Any, kind: type[Exception]
) -> None:
    verb = BlockingVerb()

    async def work(case: Case) -> Case:
        return await verb.block(case)

    with pytest.raises(kind):
        await performed(threads, make_entered(work, options), limit=SHORT)

    assert verb.calls == 1


ENDS = [
    (StopReason.LOST, EXTERNAL, Fenced),
    (StopReason.LOST, TRANSACTIONAL, Fenced),
    (StopReason.GONE, EXTERNAL, JobVanished),
    (StopReason.GONE, TRANSACTIONAL, JobVanished),
    (StopReason.SHUTDOWN, EXTERNAL, Abandoned),
    (StopReason.SHUTDOWN, TRANSACTIONAL, WorkerStopping),
]


@pytest.mark.parametrize(("reason", "options", "kind"), ENDS)
async def test_ending_a_life_ends_its_verb(
    threads: ThreadPoolExecutor, reason: StopReason, options: Any, kind: type[Exception]
) -> None:
    verb, running_job = BlockingVerb(), make_running_job()

    async def work(case: Case) -> Case:
        return await verb.block(case)

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(_caught(performed(threads, make_entered(work, options), running_job=running_job)))
        await verb.reached.wait()
        running_job.end(reason)

    assert type(running.result()) is kind


async def _caught(work: Any) -> BaseException | None:
    try:
        await work
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(("reason", "options", "kind"), ENDS)
async def test_a_life_that_ended_before_begins_no_verb(
    threads: ThreadPoolExecutor, reason: StopReason, options: Any, kind: type[Exception]
) -> None:
    verb, running_job = BlockingVerb(), make_running_job()
    verb.may_go_on.set()
    running_job.end(reason)

    async def work(case: Case) -> Case:
        return await verb.block(case)

    error = await _caught(performed(threads, make_entered(work, options), running_job=running_job))

    # An external verb that has not begun leaves nothing unknown: its job goes back.
    assert type(error) is (WorkerStopping if reason is StopReason.SHUTDOWN else kind)
    assert verb.calls == 0


async def test_the_first_reason_to_end_counts(threads: ThreadPoolExecutor) -> None:
    running_job = make_running_job()
    running_job.end(StopReason.LOST)
    running_job.end(StopReason.SHUTDOWN)

    assert running_job.ended is StopReason.LOST


async def test_a_real_cancellation_is_never_taken_for_the_verbs_own(threads: ThreadPoolExecutor) -> None:
    verb = BlockingVerb()

    async def work(case: Case) -> Case:
        return await verb.block(case)

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(performed(threads, make_entered(work)))
        await verb.reached.wait()
        running.cancel()

    assert running.cancelled()


async def _turns() -> None:
    """Let the loop turn often enough for everything that was scheduled."""
    for _ in range(20):
        await asyncio.sleep(0)


class Workshop:
    """A verb on a thread that stands still until the test lets it go on."""

    def __init__(self, error: Exception | None = None) -> None:
        self.reached = asyncio.Event()
        self.may_go_on = threading.Event()
        self._error = error
        self._loop = asyncio.get_running_loop()

    def entered(self) -> AdmittedJob:
        def work(case: Case) -> Case:
            self._loop.call_soon_threadsafe(self.reached.set)
            self.may_go_on.wait(20)
            if self._error is not None:
                raise self._error
            return case

        return make_entered(work)


@pytest.mark.parametrize("reason", [None, StopReason.LOST, StopReason.SHUTDOWN])
async def test_a_thread_that_cannot_be_stopped_keeps_its_run_until_it_ends(
    threads: ThreadPoolExecutor, reason: StopReason | None
) -> None:
    shop, running_job = Workshop(), make_running_job()
    limit = timedelta(0) if reason is None else LONG
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(_caught(performed(threads, shop.entered(), running_job=running_job, limit=limit)))
        await shop.reached.wait()
        if reason is not None:
            running_job.end(reason)
        await _turns()
        waited = not running.done()
        shop.may_go_on.set()

    assert waited
    assert isinstance(running.result(), OutcomeUnknown | Fenced | Abandoned)


async def test_a_second_cancellation_leaves_a_thread_to_itself(threads: ThreadPoolExecutor) -> None:
    shop, running_job = Workshop(), make_running_job()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(performed(threads, shop.entered(), running_job=running_job))
        await shop.reached.wait()
        running_job.end(StopReason.SHUTDOWN)
        await _turns()
        running.cancel()
        await asyncio.wait([running])
        shop.may_go_on.set()

    assert running.cancelled()


@pytest.mark.req("FAIL-04")
async def test_what_a_thread_raises_too_late_is_shown_to_nobody(
    threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Workshop(ValueError(SECRET))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(_caught(performed(threads, shop.entered(), limit=timedelta(0))))
        await shop.reached.wait()
        await _turns()
        shop.may_go_on.set()
    del running
    gc.collect()

    assert SECRET not in caplog.text


async def test_a_verb_that_never_got_a_thread_failed_and_may_be_tried_again() -> None:
    shop = Workshop()
    pool = ThreadPoolExecutor(1)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(performed(pool, shop.entered()))
        await shop.reached.wait()
        second = tasks.create_task(_caught(performed(pool, shop.entered())))
        await _turns()
        pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.wait([second])
        shop.may_go_on.set()

    assert isinstance(first.result(), Case)
    assert isinstance(second.result(), TransientExternal)


# ---- a verb that reaches for the worker -----------------------------------------------------------------------------


@pytest.mark.parametrize("awaits", [True, False])
async def test_a_verb_that_cancels_every_task_fails_alone(threads: ThreadPoolExecutor, awaits: bool) -> None:
    async def cancel_all(case: Case) -> Case:
        for task in asyncio.all_tasks():
            task.cancel()
        if awaits:
            await asyncio.sleep(0)
        return case

    async def attempt() -> str:
        try:
            await performed(threads, make_entered(cancel_all))
        except TransientExternal as error:
            await asyncio.sleep(0)  # nothing of it comes later
            return str(error)
        return "no error"

    still = asyncio.Event()
    other = asyncio.create_task(still.wait())
    said = await asyncio.create_task(attempt())
    still.set()

    assert said == "the verb cancelled itself"
    assert await other


async def test_a_cancel_from_outside_ends_a_verb_that_cancels_too(threads: ThreadPoolExecutor) -> None:
    verb = BlockingVerb()
    running = asyncio.create_task(performed(threads, make_entered(verb.block)))
    await verb.reached.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_timeout_inside_a_verb_is_the_verbs_own(threads: ThreadPoolExecutor) -> None:
    async def wait_shortly(case: Case) -> Case:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(60)
        except TimeoutError:
            case.note = "late"
        return case

    answer: Any = await asyncio.create_task(performed(threads, make_entered(wait_shortly)))

    assert answer.note == "late"


async def test_a_verb_that_stops_the_loop_fails_alone(threads: ThreadPoolExecutor) -> None:
    async def stop_loop(case: Case) -> Case:
        asyncio.get_running_loop().stop()
        return case

    with pytest.raises(TransientExternal, match="stopped the worker's event loop, which is refused"):
        await asyncio.create_task(performed(threads, make_entered(stop_loop)))
