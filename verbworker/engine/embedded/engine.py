"""The embedded engine: Postgres stores, the kernel decides, and every command is one transaction."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from importlib.metadata import version
from types import TracebackType
from typing import Final, Self, TypeVar

import orjson

from verbworker.background.poll_loop import Service, run_for_ever
from verbworker.engine.embedded.activation import DirectHandoff, JobActivation, Waiters
from verbworker.engine.embedded.definition_cache import DefinitionCache
from verbworker.engine.embedded.instance_cache import CachedInstance, InstanceCache
from verbworker.engine.embedded.instance_step import (
    DEFAULT_TENANT,
    InstanceStep,
    Starts,
    answer,
    cut,
    engine_incident,
    serialize,
    state_of,
    to_plain_json,
)
from verbworker.engine.embedded.job_completion import Completion, CompletionParts
from verbworker.engine.embedded.kernel import commands as told
from verbworker.engine.embedded.kernel.commands import TargetMissing
from verbworker.engine.embedded.kernel.inspection import active_elements
from verbworker.engine.embedded.store_errors import translate_errors
from verbworker.engine.embedded.timers import EngineTimers
from verbworker.engine.embedded.transaction import EngineStores, EngineTransaction
from verbworker.engine.protocol import (
    ActiveElement,
    Ask,
    Deployed,
    EngineFacts,
    EngineIncident,
    Resource,
    Signal,
    Start,
    Started,
    Variables,
)
from verbworker.engine.variables import variables_of
from verbworker.errors import CommandInvalid, EngineError, JobGone, JobNotActive
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult
from verbworker.retrying import TRANSACTION
from verbworker.stores.batch import Batch
from verbworker.stores.database import Connection, Database
from verbworker.stores.embedded.finishes import Finishes
from verbworker.stores.embedded.subscriptions import StoredMessage, Subscriptions
from verbworker.stores.embedded.tokens import Change, StoredInstance, Tokens, instance_of

_STREAM_WAIT_MS: Final = 60_000  # then it asks again; a stream never ends by itself


Answer = TypeVar("Answer")


class EmbeddedEngine:
    """A process engine in a Postgres database. Any number of processes may have it open concurrently.

    While open, it runs a task that batches statements, fires timers and listens for notifications until the engine is
    closed. Opening it also opens the database, unless that is already open.
    """

    def __init__(
        self,
        database: Database,
        *,
        engine_id: str = "embedded",
        retention: timedelta | None = timedelta(days=7),
        run_timers: bool = True,
    ) -> None:
        self._database = database
        self._engine_id = engine_id
        self._tokens = Tokens(database)
        self._definitions = DefinitionCache(database, self._tokens)
        self._stores = EngineStores(self._tokens, Subscriptions(database), self._definitions)
        self._starts = Starts(database, self._tokens, self._definitions)
        self._waiters = Waiters(database, self._tokens)
        self._memory = InstanceCache()
        self._loads: Batch[int, StoredInstance | None] = Batch(self._tokens.load, lambda key: key, name="engine-loads")
        self._saves: Batch[Change, int] = Batch(
            self._tokens.save, lambda change: change.kept.instance_key, name="engine-saves"
        )
        self._activation = JobActivation(self._tokens, self._definitions, self._waiters, self._memory)
        self._handoff = DirectHandoff(self._waiters, self._activation.take_back)
        self._finishes = Finishes(database)
        self._completions = CompletionParts(
            *(self._tokens, self._finishes, self._handoff),
            *(self._memory.keep, self._cache, self._save_completion),
        )
        self.timers = EngineTimers(database, self._stores, made=self._wake_waiters, retention=retention)
        ticking = self.timers.services if run_timers else ()
        self.services: tuple[Service, ...] = (
            *(self._loads, self._saves, self._finishes.service),
            *(*self._activation.services, *self._waiters.services, *ticking),
        )
        self._task: asyncio.Task[None] | None = None
        self._stack = AsyncExitStack()

    @property
    def engine_id(self) -> str:
        """The name under which this database's job keys are unique."""
        return self._engine_id

    async def facts(self) -> EngineFacts:
        """Check that the database is reachable and that its engine has the expected name."""
        await self._require_name()
        return EngineFacts(f"embedded {version('verbworker')}", brokers=1, partitions=1)

    async def _require_name(self) -> None:
        with translate_errors():
            await self._tokens.require_name(self.engine_id)

    async def deploy(self, resources: Sequence[Resource]) -> list[Deployed]:
        """Deploy the models together; bytes equal to the latest version keep that version."""
        await self._require_name()
        deployed = await self._insist(lambda: self._definitions.deploy(resources))
        # The first deployment names the engine: before it there can be no job.
        await self._insist(lambda: self._tokens.name_engine(self.engine_id))
        return deployed

    async def model(self, definition_key: int) -> bytes | None:
        """Return the deployed bytes of a definition; None if it does not exist."""
        return await self._insist(lambda: self._definitions.content(definition_key))

    async def start(self, start: Start) -> Started:
        """Create an instance, pinned to the returned version."""
        with translate_errors():
            opening = await self._starts.open(start)
            turn = await self._starts.begin(start, opening)
            compiled = await self._definitions.find(opening.definition_key)
        if turn.is_quiet:
            await self._save(turn, compiled.version)
        else:

            async def begin(transaction: EngineTransaction) -> None:
                await transaction.settle(await self._starts.begin(start, opening), opening.now)

            await self._together(begin)
        return answer(opening)

    async def start_with(
        self, starts: Sequence[Start], note: Callable[[Connection, Sequence[Started]], Awaitable[None]]
    ) -> list[Started]:
        """Create instances and run `note` in the same commit; if `note` raises, no instance is created."""
        with translate_errors():
            openings = [await self._starts.open(start) for start in starts]
            turns = [await self._starts.begin(start, at) for start, at in zip(starts, openings, strict=True)]
            answers = [answer(opening) for opening in openings]
            async with self._database.transaction() as connection:
                transaction = EngineTransaction(connection, self._stores)
                await transaction.settle_all(turns)
                await note(connection, answers)
        self._wake_waiters(transaction.changes)
        return answers

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        """Activate up to `limit` jobs, waiting up to `wait_ms` for the first. If cancelled, gives them back."""
        with translate_errors():
            return await self._activation.take(ask, limit, wait_ms)

    async def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        """Yield jobs as they are created. Each is activated when requested, so none stays unread."""
        while True:
            for job in await self.activate(ask, 1, _STREAM_WAIT_MS):
                yield job

    # ---- job commands ------------------------------------------------------------------------------------------------

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        """Complete a job with its result."""
        await self._tell(job_key, told.CompleteJob(job_key, to_plain_json(variables_of(result))), is_job=True)

    def shares(self, database: Database) -> bool:
        """Return whether a transaction on this database can move tokens."""
        return self._database.is_same(database)

    async def prepare_completion(self, job_key: int, result: JobResult) -> Completion:
        """Return the completion of a job for the caller's transaction."""
        command = told.CompleteJob(job_key, to_plain_json(variables_of(result)))
        known = self._memory.take(instance_of(job_key))
        if known is None:
            return Completion(self._completions, command)
        compiled = await self._definitions.find(known.kept.definition_key)
        turn = known.step(compiled.definition, command, job_key)
        return Completion(self._completions, command, turn, compiled.version, known)

    async def _save_completion(self, connection: Connection, command: told.CompleteJob) -> Callable[[], None]:
        transaction = EngineTransaction(connection, self._stores)
        await self._tell_in(transaction, command.job, command, guard=command.job)
        return lambda: self._wake_waiters(transaction.changes)

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        """Give a job back with exactly `retries` left; with zero it is held and an incident gives the reason."""
        if retries <= 0:
            await self._tell(job_key, told.ExhaustJob(job_key, cut(message)), is_job=True)
            return
        command = told.FailJob(job_key, min(retries, 2**31 - 1), max(backoff_ms, 0))
        await self._tell(job_key, command, is_job=True)

    async def throw(self, job_key: int, *, code: str, message: str, lease_token: str | None = None) -> None:
        """End a job with a BPMN error; if uncaught, the job is held with an incident."""
        await self._tell(job_key, told.ThrowError(job_key, code, cut(message)), is_job=True)

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        """Set the activation to expire `timeout_ms` from now; `JobNotActive` if it has already ended."""
        with translate_errors():
            if not await self._tokens.extend(job_key, timeout_ms):
                raise await self._refusal(self._database, job_key, "it is not active")

    async def release(self, job_key: int, *, retries: int, incident_key: int | None = None) -> None:
        """Give a job new retries and resolve the given incident, or else its own."""
        if retries <= 0:
            raise CommandInvalid(f"job {job_key} needs a positive amount of retries, not {retries}")

        async def release_job(transaction: EngineTransaction) -> None:
            if not await self._tokens.set_retries(transaction.connection, job_key, min(retries, 2**31 - 1)):
                raise JobGone(f"no such job: {job_key}")
            standing = await self._tokens.job(transaction.connection, job_key)
            incident = incident_key or (standing.incident_key if standing else None)
            if incident is not None:
                await transaction.resolve(incident)

        await self._together(release_job)

    async def incidents(self, instance_keys: Sequence[int] = ()) -> list[EngineIncident]:
        """Return the open incidents of these instances, or of all without keys. Never lags."""
        with translate_errors():
            rows = await self._tokens.incidents(instance_keys)
        return [engine_incident(row) for row in rows]

    async def waits(self, instance_key: int) -> list[ActiveElement]:
        """Return where the tokens of an instance are; none if it has ended."""
        with translate_errors():
            (kept,) = await self._tokens.load([instance_key])
            if kept is None:
                return []
            compiled = await self._definitions.find(kept.definition_key)
        return active_elements(compiled.definition, state_of(kept))

    async def resolve_incident(self, incident_key: int) -> None:
        """Resolve an incident; `JobGone` if it does not exist."""
        await self._together(lambda transaction: transaction.resolve(incident_key))

    async def set_flags(self, instance_key: int, flags: Variables) -> None:
        """Set flags of an instance; `JobGone` if it has ended."""
        await self.set_variables(instance_key, flags)

    async def set_variables(self, instance_key: int, variables: Variables) -> None:
        """Set variables from outside the model, as an operator does; `JobGone` if the instance has ended."""
        values = to_plain_json(variables)

        async def put(transaction: EngineTransaction) -> None:
            try:
                await transaction.put(instance_key, values)
            except TargetMissing as error:
                raise JobGone(f"no such instance: {instance_key}") from error

        await self._together(put)

    async def _refusal(self, connection: Connection | Database, job_key: int, why: str) -> EngineError:
        """Return the error for a refused job command."""
        standing = await self._tokens.job(connection, job_key)
        if standing is None:
            return JobGone(f"no such job: {job_key}")
        state = "ACTIVATED" if standing.is_active else "ACTIVATABLE"
        if standing.is_held or standing.is_resting:
            state = "ERROR_THROWN" if standing.incident_kind == "UNHANDLED_ERROR_EVENT" else "FAILED"
        return JobNotActive(f"job {job_key} is {state}" + (f": {why}" if why else ""))

    # ---- messages and instances ----------------------------------------------------------------------------------

    async def publish(self, signal: Signal) -> None:
        """Publish a message; one still buffered under the same id counts as published."""
        place = signal.tenant_id or DEFAULT_TENANT, signal.name, signal.correlation_key, signal.message_id
        message = StoredMessage(*place, serialize(signal.variables))
        await self._together(lambda transaction: transaction.publish(message, signal.ttl_ms))

    async def correlate(
        self, name: str, correlation_key: str, variables: Variables, *, tenant_id: str | None = None
    ) -> int | None:
        """Deliver a message to its current subscribers."""
        message = StoredMessage(tenant_id or DEFAULT_TENANT, name, correlation_key, "", serialize(variables))
        return await self._together(lambda transaction: transaction.correlate(message))

    async def cancel(self, instance_key: int) -> None:
        """Cancel an instance."""
        await self._tell(instance_key, told.Cancel())

    async def alive(self, instance_key: int) -> bool:
        """Return whether an instance has not ended."""
        with translate_errors():
            return await self._tokens.is_there(instance_key)

    # ---- steps -------------------------------------------------------------------------------------------------------

    async def _tell(self, key: int, command: told.Command, *, is_job: bool = False) -> None:
        """Move the instance that owns a key: by one statement if possible, otherwise in a transaction."""
        instance_key, guard = instance_of(key), key if is_job else 0
        async with self._memory.turn(instance_key):
            known = self._memory.take(instance_key)
            if known is not None and await self._is_done(known, command, guard):
                return
            with translate_errors():
                kept = await self._loads.add(instance_key)
            if kept is None:
                raise JobGone(f"no such {'job' if is_job else 'instance'}: {key}")
            fresh = CachedInstance(kept, orjson.loads(kept.variables))
            if not await self._is_done(fresh, command, guard):
                await self._together(lambda transaction: self._tell_in(transaction, key, command, guard=guard))

    async def _is_done(self, known: CachedInstance, command: told.Command, guard: int) -> bool:
        """Try the one-statement path. Return False if the known state is stale or other rows are needed."""
        compiled = await self._definitions.find(known.kept.definition_key)
        turn = known.step(compiled.definition, command, guard)
        return turn is not None and await self._save(turn, compiled.version)

    async def _save(self, turn: InstanceStep, version: int) -> bool:
        """Save a step by one statement, and hand its jobs to local waiters."""
        with translate_errors(), self._handoff.promise(turn) as promises:
            at_ms = await self._saves.add(turn.finish())
            if at_ms:
                self._cache(turn)
                promises.keep(version, at_ms)
        return bool(at_ms)

    def _cache(self, turn: InstanceStep) -> None:
        """Cache an instance as it was saved, and wake the waiters for its jobs."""
        if not turn.change.ended:
            self._memory.keep(CachedInstance(turn.snapshot(), turn.state.variables, turn.state))
        self._wake_waiters([turn.change])

    async def _tell_in(self, transaction: EngineTransaction, key: int, command: told.Command, *, guard: int) -> None:
        try:
            if await transaction.tell(instance_of(key), command, guard=guard):
                return
            raise await self._refusal(transaction.connection, key, "")
        except TargetMissing as error:
            if guard:
                raise await self._refusal(transaction.connection, key, str(error)) from error
            raise JobGone(f"no such instance: {key}") from error

    async def _together(self, work: Callable[[EngineTransaction], Awaitable[Answer]]) -> Answer:
        """Move instances in one transaction, and retry it on conflicts."""

        async def once() -> Answer:
            async with self._database.transaction() as connection:
                transaction = EngineTransaction(connection, self._stores)
                answer = await work(transaction)
            self._wake_waiters(transaction.changes)
            return answer

        return await self._insist(once)

    async def _insist(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        with translate_errors():
            return await TRANSACTION.run(work)

    def _wake_waiters(self, changes: list[Change]) -> None:
        kinds = {job.type for change in changes for job in change.jobs.values() if job.worker is None}
        kinds.update(*(change.freed for change in changes))
        if kinds:
            self._waiters.tell(kinds)

    # ---- opening and closing -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open the database unless it is open, and start the services."""
        with translate_errors():
            if not self._database.is_open:
                await self._stack.enter_async_context(self._database)
        # Not a TaskGroup: an engine may be opened in one task and closed in another.
        self._task = asyncio.create_task(self._run(), name="embedded engine")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the services. Other processes are not affected."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self._stack.aclose()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for service in self.services:
                tasks.create_task(run_for_ever(service), name=service.name)
