"""One run of a verb: call its function with its case, within its timeout, and stop it from outside if needed."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor as Threads
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from typing import Any, cast

from pydantic import BaseModel

from verbworker import metrics
from verbworker.background.poll_loop import is_being_cancelled
from verbworker.contract.policy import Policy
from verbworker.contract.verb import Act, Call, Db, Mode
from verbworker.engine.protocol import same_database
from verbworker.errors import (
    EngineError,
    Fenced,
    OutcomeUnknown,
    StoreUnavailable,
    TransientExternal,
    VerbworkerError,
    WorkerStopping,
)
from verbworker.job.current_verb import performed_verb, performing
from verbworker.job.failpoint import Point, reach
from verbworker.job.frame import Claim, FrameState
from verbworker.job.outcome import Completed
from verbworker.payload.boundary import AdmittedJob, afresh, variables_of
from verbworker.retrying import VERB_TRANSACTION
from verbworker.stores.database import Connection, Database, plan_by_key
from verbworker.stores.guarded_connection import GuardedConnection
from verbworker.stores.jobs.frames import Frames
from verbworker.work.feeds.leases import Abandoned, JobVanished, RunningJob, StopReason
from verbworker.work.jobs.verdicts import Verdicts

_log = logging.getLogger(__name__)
_verb_log = logging.getLogger("verbworker.verb")


class VerbRun:
    """Runs verbs: async ones on the loop, sync ones on a thread each."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads

    async def perform(
        self, entered: AdmittedJob, claim: Claim, life: RunningJob, limit: timedelta, connection: Db | None
    ) -> object:
        """Call the verb and return its answer. A job that has been stopped starts nothing."""
        if life.ended is not None:
            raise _stop_error(life.ended, entered, begun=False)
        call = _call(entered, claim, limit, connection)
        scope = asyncio.timeout(limit.total_seconds())
        life.due = asyncio.get_running_loop().time() + limit.total_seconds()
        try:
            async with scope:
                with life.inside(scope):
                    return await self._ask_and_act(entered, claim, call)
        except TimeoutError as error:
            if life.ended is not None:
                raise _stop_error(life.ended, entered, begun=True) from error
            if scope.expired() and entered.verb.mode is Mode.EXTERNAL:
                raise OutcomeUnknown("the verb did not end within its time", code="Timeout") from error
            raise
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            raise TransientExternal("the verb cancelled itself", code="Cancelled") from error
        finally:
            life.due = None

    async def _ask_and_act(self, entered: AdmittedJob, claim: Claim, call: Call) -> object:
        # Runs are counted anew when a job is released; epochs never are, and any earlier run may have taken effect.
        if entered.verb.probe is not None and (claim.epoch > 1 or claim.follows_twin):
            answer = await self.invoke(entered.verb.probe, afresh(entered).case, call)
            if answer is not None:
                return answer
        return await self.invoke(entered.verb.act, entered.case, call)

    async def invoke(self, act: Act, case: BaseModel, call: Call) -> object:
        """Call one function of a verb's author, on a thread if it is not async.

        Its exceptions affect only its own job: one that would end the process becomes `TransientExternal`.
        """
        with performing(call.verb):
            return await _contain(self._invoke(act, case, call))

    async def _invoke(self, act: Act, case: BaseModel, call: Call) -> object:
        arguments = act.arguments(case, call)
        if act.is_async:
            return await act.function(**arguments)
        call_it = partial(copy_context().run, _on_thread, act.function, arguments)
        thread = asyncio.get_running_loop().run_in_executor(self._threads, call_it)
        thread.add_done_callback(_hear)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            # A thread cannot be stopped: its frame stays ours, heartbeats included, until it has ended.
            await asyncio.wait([thread])
            raise


class Transactional:
    """Runs verbs in a transaction of their own. An engine in the same database needs no further command."""

    def __init__(
        self, database: Database, frames: Frames, performance: VerbRun, engine: object, popping: Verdicts
    ) -> None:
        self._database = database
        self._frames = frames
        self._performance = performance
        self._popping = popping
        self._engine = same_database(engine, database)

    async def run(self, entered: AdmittedJob, claim: Claim, life: RunningJob, policy: Policy) -> Completed:
        """Run a verb so that its writes and its verdict are one commit: both happen or neither does."""
        limit = timedelta(seconds=policy.start_to_close_timeout_seconds)
        first = iter((entered,))

        async def attempt() -> Completed:
            return await self._attempt(next(first, None) or afresh(entered), claim, life, limit)

        return await VERB_TRANSACTION.run(attempt)

    async def _attempt(self, entered: AdmittedJob, claim: Claim, life: RunningJob, limit: timedelta) -> Completed:
        completed: Completed | None = None
        wake: Callable[[], None] | None = None
        try:
            async with self._database.transaction() as connection:
                db = GuardedConnection(connection)
                answer = await self._performance.perform(entered, claim, life, limit, db)
                reach(Point.PERFORMED)
                await plan_by_key(connection)
                completed = await self._popping.pop_in(connection, entered, claim, answer)
                wake = await self._move(connection, claim, completed)
        except StoreUnavailable:
            # The commit may have happened. Looking is the only way to know.
            state = await self._popping.find_state(claim)
            metrics.AMBIGUOUS.labels(entered.verb.name, state.value).inc()
            if state is not FrameState.COMPLETED or completed is None:
                raise
        if wake is not None:
            life.is_told = True
            wake()
        return completed

    async def _move(self, connection: Connection, claim: Claim, completed: Completed) -> Callable[[], None] | None:
        """Move the token and acknowledge the frame if the engine shares the database; a refused move is sent later."""
        if self._engine is None:
            return None
        try:
            wake = await self._engine.complete_in(connection, claim.job_key, variables_of(completed))
        except EngineError as error:
            _log.info("not moved together", extra={"job_key": claim.job_key, "reason": str(error)})
            return None
        await self._frames.acknowledge_in(connection, {claim.job_key: "ok"})
        return wake


def contain_exits() -> None:
    """Keep the tasks of verbs from ending the process: an exit there would end the running loop itself."""

    def make_task(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any] | Generator[Any, None, Any], /, **options: Any
    ) -> asyncio.Task[Any]:
        is_verbs = performed_verb() is not None and isinstance(work, Coroutine)
        return asyncio.Task(_contain(cast(Coroutine[Any, Any, Any], work)) if is_verbs else work, loop=loop, **options)

    asyncio.get_running_loop().set_task_factory(make_task)


async def _contain(work: Coroutine[Any, Any, object]) -> object:
    """Await a part of a verb; what would end the process is raised as `TransientExternal`."""
    try:
        return await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        if not _is_running():
            raise  # the loop is gone, and this coroutine is being torn down
        name = type(error).__name__
        raise TransientExternal(f"the verb raised {name}, which ends a process", code=name) from error


def _on_thread(function: Callable[..., object], arguments: dict[str, object]) -> object:
    try:
        return function(**arguments)
    except StopIteration as error:
        # A future cannot hold StopIteration, and its awaiter would wait forever.
        raise RuntimeError("the verb raised StopIteration") from error


def _hear(thread: "asyncio.Future[object]") -> None:
    """Retrieve a thread's exception. The loop would log an unretrieved one, including text that is not ours."""
    if not thread.cancelled():
        thread.exception()


def _call(entered: AdmittedJob, claim: Claim, limit: timedelta, connection: Db | None) -> Call:
    fields = {"verb": entered.verb.name, "entry_id": str(entered.instance.entry_id), "attempt": claim.runs}
    return Call(
        verb=entered.verb.name,
        entry_id=entered.instance.entry_id,
        tenant_id=entered.instance.tenant_id,
        idempotency_key=claim.idempotency_key,
        attempt=claim.runs,
        epoch=claim.epoch,
        deadline=claim.now + limit,
        log=logging.LoggerAdapter(_verb_log, fields),
        connection=connection,
        decisions=entered.decisions,
        messages=entered.messages,
    )


def _is_running() -> bool:
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def _stop_error(reason: StopReason, entered: AdmittedJob, *, begun: bool) -> VerbworkerError:
    match reason:
        case StopReason.LOST:
            return Fenced("another worker claimed the job while the verb ran")
        case StopReason.GONE:
            return JobVanished("the engine dropped the job while the verb ran")
        case StopReason.SHUTDOWN if entered.verb.mode is Mode.TRANSACTIONAL or not begun:
            return WorkerStopping("the worker shut down, and nothing of this run is left", code="Shutdown")
        case StopReason.SHUTDOWN:  # pragma: no branch  # there is no other
            return Abandoned("the worker shut down while an external call may be under way")
