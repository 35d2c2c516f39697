"""One run of a verb: call its function with its case, within its timeout, and stop it from outside if needed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Executor as Threads
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from verbworker import metrics
from verbworker.background.poll_loop import is_being_cancelled
from verbworker.contract.policy import Policy
from verbworker.contract.verb import Act, Call, Db, Mode, Result, Verb
from verbworker.engine.protocol import PreparedCompletion, SameDatabase, same_database
from verbworker.errors import (
    EngineError,
    Fenced,
    OutcomeUnknown,
    PermanentContract,
    StoreError,
    StoreUnavailable,
    TransientExternal,
    VerbworkerError,
    WorkerStopping,
)
from verbworker.job.classify import Failed
from verbworker.job.current_verb import performing
from verbworker.job.error_place import locate_error
from verbworker.job.failpoint import Point, reach
from verbworker.job.frame import Claim, FrameState
from verbworker.job.outcome import Incident, JobResult, Retry
from verbworker.payload.boundary import AdmittedJob, afresh, leave
from verbworker.profile.task_profile import HEADER
from verbworker.retrying import VERB_TRANSACTION
from verbworker.stores.access.guarded_connection import GuardedConnection
from verbworker.stores.database import Connection, Database, LazyTransaction, plan_by_key
from verbworker.stores.jobs.frames import Frames, VerdictRow
from verbworker.work.feeds.leases import Abandoned, JobVanished, RunningJob, StopReason
from verbworker.work.jobs.containment import contain_run, contain_thread
from verbworker.work.jobs.verdicts import Verdicts, verdict

_log = logging.getLogger(__name__)
_verb_log = logging.getLogger("verbworker.verb")

Answer = TypeVar("Answer")


class VerbRun:
    """Runs verbs: async ones on the loop, sync ones on a thread each."""

    def __init__(self, threads: Threads, *, tracebacks: bool = False) -> None:
        self._threads = threads
        self._tracebacks = tracebacks

    async def perform(
        self, entered: AdmittedJob, claim: Claim, running: RunningJob, limit: timedelta, connection: Db | None
    ) -> object:
        """Call the verb and return its answer. A job that has been stopped starts nothing."""
        work = partial(self._ask_and_act, entered, claim, _call(entered, claim, limit, connection))
        return await self.run_within(limit, running, entered.verb.mode, work)

    async def run_within(
        self, limit: timedelta, running: RunningJob, mode: Mode, work: Callable[[], Coroutine[Any, Any, Answer]]
    ) -> Answer:
        """Do the work of a job within its time. A job that has been stopped starts nothing."""
        if running.ended is not None:
            raise _stop_error(running.ended, mode, begun=False)
        due = asyncio.get_running_loop().time() + limit.total_seconds()
        scope = asyncio.timeout_at(due)
        try:
            async with scope:
                running.enter(scope, due)
                try:
                    return await work()
                finally:
                    running.leave()
        except TimeoutError as error:
            if running.ended is not None:
                raise _stop_error(running.ended, mode, begun=True) from error
            if scope.expired() and mode is Mode.EXTERNAL:
                raise OutcomeUnknown("the verb did not end within its time", code="Timeout") from error
            raise
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            raise TransientExternal("the verb cancelled itself", code="Cancelled") from error

    async def _ask_and_act(self, entered: AdmittedJob, claim: Claim, call: Call) -> object:
        # Runs are counted anew when a job is released; epochs never are, and any earlier run may have taken effect.
        if entered.verb.probe is not None and (claim.epoch > 1 or claim.follows_twin):
            answer = await self.invoke(entered.verb.probe, afresh(entered).case, call)
            if answer is not None:
                return answer
        return await self.act(entered.verb, entered.case, call)

    async def act(self, verb: Verb, case: BaseModel, call: Call) -> object:
        """Call a verb's function between its hooks; a hook that raises fails the run."""
        for hook in verb.before:
            _require_nothing(verb, await self.invoke(hook, case, call))
        answer = await self.invoke(verb.act, case, call)
        for hook in verb.after:
            result = answer if isinstance(answer, Result) else Result(cast(BaseModel, answer))
            _require_nothing(verb, await self.invoke(hook, result, call))
        return answer

    async def invoke(self, act: Act, case: object, call: Call) -> object:
        """Call one function of a verb's author, on a thread if it is not async.

        Its exceptions affect only its own job: one that would end the process becomes `TransientExternal`.
        """
        with performing(call.verb):
            return await contain_run(self._invoke(act, case, call))

    async def _invoke(self, act: Act, case: object, call: Call) -> object:
        arguments = act.arguments(case, call)
        if act.is_async:
            return await act.function(**arguments)
        return await self._run_on_thread(act.function, arguments)

    async def invoke_task(self, name: str, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Await a plain task as `invoke` awaits a verb."""
        with performing(name):
            return cast(Answer, await contain_run(work))

    async def call_by_names(self, function: Callable[..., Any], arguments: dict[str, Any]) -> object:
        """Call a function of a plain task, on a thread if it is not async."""
        if iscoroutinefunction(function):
            return await function(**arguments)
        return await self._run_on_thread(function, arguments)

    async def _run_on_thread(self, function: Callable[..., object], arguments: dict[str, object]) -> object:
        call_it = partial(copy_context().run, partial(contain_thread, function, **arguments))
        thread = asyncio.get_running_loop().run_in_executor(self._threads, call_it)
        thread.add_done_callback(_hear)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            # A thread cannot be stopped: its frame stays ours, heartbeats included, until it has ended.
            await asyncio.wait([thread])
            raise

    def log_failure(self, error: Exception, failed: Failed, verb: Verb | None, about: Mapping[str, object]) -> None:
        """Log why a run failed: the exception's type and place; its message only in a traceback, if that is wanted."""
        module = verb.act.function.__module__ if verb else ""
        fields = {**about, "code": failed.code, **locate_error(error, module).fields()}
        match failed:
            case Retry():
                level = logging.WARNING
            case Incident():
                level = logging.ERROR
            case _:  # an answer of the domain, or an outage that is reported by itself
                _log.info("run failed", extra=fields)
                return
        _log.log(level, "run failed", exc_info=error if self._tracebacks else None, extra=fields)


class External:
    """Runs verbs that call others: the frame is durable before the call, the verdict as soon as it returns."""

    def __init__(
        self,
        database: Database,
        frames: Frames,
        verb_run: VerbRun,
        engine: object,
        verdicts: Verdicts,
        persist: Callable[[Claim, Callable[[], Awaitable[bool]]], Awaitable[bool]],
    ) -> None:
        """Run verbs; `persist` writes until it is written, and looks first what a lost answer left."""
        self._database = database
        self._frames = frames
        self._verb_run = verb_run
        self._engine = same_database(engine, database)
        self._verdicts = verdicts
        self._persist = persist

    async def run(self, entered: AdmittedJob, claim: Claim, running: RunningJob, policy: Policy) -> JobResult:
        """Call a verb and store its verdict; with the completed job if the engine is in the same database."""
        limit = timedelta(seconds=policy.start_to_close_timeout_seconds)
        answer = await self._verb_run.perform(entered, claim, running, limit, None)
        reach(Point.PERFORMED)
        completed = leave(entered, answer)
        merged: list[JobResult] = []

        async def pop() -> bool:
            row = verdict(entered, claim, completed, entered.base_hash)
            # Correlation keys are rare, and need a statement of their own.
            if self._engine is not None and not completed.correlation:
                running.is_answered = await self._finish(self._engine, row, completed)
            if running.is_answered or await self._frames.pop_completed(row):
                return True
            async with self._database.transaction() as connection:
                merged.append(await self._verdicts.merge_in(connection, entered, claim, answer))
            return True

        try:
            await self._persist(claim, pop)
        except StoreError as error:
            raise OutcomeUnknown("the call is done, but its answer cannot be stored", code="NotStored") from error
        return merged[-1] if merged else completed

    async def _finish(self, engine: SameDatabase, row: VerdictRow, completed: JobResult) -> bool:
        """Store a verdict and complete its job in one commit; False if it takes one after the other."""
        try:
            move = await engine.prepare_completion(row.claim.job_key, completed)
        except EngineError as error:
            # The call is done, so its verdict is stored in any case. Then the engine refuses it once more, on record.
            _log.info("not moved in one commit", extra={"job_key": row.claim.job_key, "reason": str(error)})
            return False
        is_saved = False
        try:
            is_saved = await move.finish(self._frames.columns_of(row))
        finally:
            move.end(is_saved=is_saved)
        return is_saved


class Transactional:
    """Runs verbs in a transaction of their own. An engine in the same database needs no further command."""

    def __init__(
        self, database: Database, frames: Frames, verb_run: VerbRun, engine: object, verdicts: Verdicts
    ) -> None:
        self._database = database
        self._frames = frames
        self._verb_run = verb_run
        self._verdicts = verdicts
        self._engine = same_database(engine, database)

    async def run(self, entered: AdmittedJob, claim: Claim, running: RunningJob, policy: Policy) -> JobResult:
        """Run a verb so that its writes and its verdict are one commit: both happen or neither does."""
        limit = timedelta(seconds=policy.start_to_close_timeout_seconds)
        first = iter((entered,))

        async def attempt() -> JobResult:
            return await self._attempt(next(first, None) or afresh(entered), claim, running, limit)

        return await VERB_TRANSACTION.run(attempt)

    async def _attempt(self, entered: AdmittedJob, claim: Claim, running: RunningJob, limit: timedelta) -> JobResult:
        end = _VerbEnd(self._frames, self._verdicts, self._engine, entered, claim)
        ends_at = asyncio.get_running_loop().time() + limit.total_seconds()
        try:
            async with self._database.lazy_transaction(tenant=entered.instance.tenant_id) as transaction:
                db = GuardedConnection(transaction.connection, transaction.begin)
                answer = await self._verb_run.perform(entered, claim, running, limit, db)
                reach(Point.PERFORMED)
                completed = await end.store(transaction, answer)
        except StoreUnavailable as error:
            # The commit may have happened. Looking is the only way to know.
            state = await self._verdicts.find_state(claim)
            metrics.AMBIGUOUS.labels(entered.verb.name, state.value).inc()
            if state is not FrameState.COMPLETED or end.completed is None:
                end.drop()
                if asyncio.get_running_loop().time() > ends_at:
                    # The server ended a session that idled beyond the verb's time: this is the verb's failure, which
                    # costs a retry, and no outage after which the verb is called again.
                    raise TimeoutError("the verb ignored its time limit, and its transaction was ended") from error
                raise
            completed = end.completed
        except BaseException:
            end.drop()
            raise
        running.is_answered = end.has_moved
        end.wake()
        return completed


class _VerbEnd:
    """The end of a transactional verb: its verdict and, in an engine of the same database, the completed job."""

    def __init__(
        self, frames: Frames, verdicts: Verdicts, engine: SameDatabase | None, entered: AdmittedJob, claim: Claim
    ) -> None:
        self._frames = frames
        self._verdicts = verdicts
        self._engine = engine
        self._entered = entered
        self._claim = claim
        self._move: PreparedCompletion | None = None
        self.completed: JobResult | None = None
        self.has_moved = False

    async def store(self, transaction: LazyTransaction, answer: object) -> JobResult:
        """Store the verdict, in one statement if possible. A verb that wrote nothing needs no transaction around it."""
        entered, claim = self._entered, self._claim
        completed = self.completed = leave(entered, answer)
        row = verdict(entered, claim, completed, entered.base_hash)
        if self._engine is None:
            if await self._frames.pop_completed_in(transaction.connection, row):
                return completed
        else:
            self._move = await self._engine.prepare_completion(claim.job_key, completed)
            match await self._move.finish_in(transaction.connection, self._frames.columns_of(row)):
                case "done":
                    self.has_moved = True
                    return completed
                case "fenced":
                    raise Fenced(f"job {claim.job_key} was claimed by another worker")
        self.completed = None
        connection = await transaction.begin()
        await plan_by_key(connection)
        completed = await self._verdicts.pop_in(connection, entered, claim, answer)
        await self._move_in(connection, completed)
        self.completed = completed
        return completed

    async def _move_in(self, connection: Connection, completed: JobResult) -> None:
        """Complete the job and acknowledge the frame; a refused move is sent later."""
        if self._engine is None:
            return
        self.drop()
        self._move = await self._engine.prepare_completion(self._claim.job_key, completed)
        try:
            await self._move.save_in(connection)
        except EngineError as error:
            _log.info("not moved in one commit", extra={"job_key": self._claim.job_key, "reason": str(error)})
            return
        await self._frames.acknowledge_in(connection, {self._claim.job_key: "ok"})
        self.has_moved = True

    def wake(self) -> None:
        """Hand the new jobs out after the commit."""
        if self._move is not None:
            move, self._move = self._move, None
            move.end(is_saved=self.has_moved)

    def drop(self) -> None:
        """Withdraw what was not committed, as far as this process knows."""
        if self._move is not None:
            move, self._move = self._move, None
            move.end(is_saved=False)


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
        headers=_static_headers(entered.job.headers),
        clock=partial(datetime.now, UTC),
    )


def _static_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers that the author of a model wrote, without what deploying added."""
    return {name: text for name, text in headers.items() if name != HEADER} if HEADER in headers else headers


def _require_nothing(verb: Verb, answer: object) -> None:
    if answer is not None:
        raise PermanentContract(
            f"a hook of {verb.name} returned {type(answer).__name__}; a hook returns nothing", code="HookInvalid"
        )


def _stop_error(reason: StopReason, mode: Mode, *, begun: bool) -> VerbworkerError:
    match reason:
        case StopReason.LOST:
            return Fenced("another worker claimed the job while the verb ran")
        case StopReason.GONE:
            return JobVanished("the engine dropped the job while the verb ran")
        case StopReason.SHUTDOWN if mode is Mode.TRANSACTIONAL or not begun:
            return WorkerStopping("the worker shut down, and nothing of this run is left", code="Shutdown")
        case StopReason.SHUTDOWN:  # pragma: no branch  # there is no other
            return Abandoned("the worker shut down while an external call may be under way")
