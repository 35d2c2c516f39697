"""Job activation: gives each job to one worker at a time, and new jobs to workers that wait for them."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Self

import orjson

from verbworker.background.poll_loop import PollLoop
from verbworker.engine.embedded.definition_cache import DefinitionCache
from verbworker.engine.embedded.instance_cache import CachedInstance, InstanceCache
from verbworker.engine.embedded.instance_step import DEFAULT_TENANT, InstanceStep
from verbworker.engine.embedded.kernel.scopes import has_own_variables, visible_at
from verbworker.engine.protocol import Ask, Variables
from verbworker.errors import CommandInvalid
from verbworker.job.job import Job
from verbworker.stores.batch import Batch
from verbworker.stores.database import Database
from verbworker.stores.embedded.tokens import Activation, ActivationRequest, Tokens

CHANNEL = "verbworker_jobs"
_LOOK = 0.25  # how long a lost notification delays a job
_LISTEN_AGAIN = 1.0  # after the connection broke
_GATHER = 0.02  # one notification for all types of a burst
_LONGEST = 7000  # bytes; Postgres takes 8000 in a notification


@dataclass(slots=True, eq=False)
class Waiter:
    """A poller waiting for jobs. While it waits, jobs may be promised to it; a promise is kept or withdrawn.

    `wake` is set when a new request is worthwhile, and when the last promise was kept or withdrawn.
    """

    ask: Ask
    tenant_ids: tuple[str, ...]
    most: int
    has_time: bool
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    brought: list[Job] = field(default_factory=list)
    promised: int = 0
    is_waiting: bool = False
    is_gone: bool = False

    def has_room(self, tenant_id: str) -> bool:
        """Return whether a job of this tenant may be promised to this waiter."""
        is_free = self.is_waiting and not self.brought and self.promised < self.most
        return is_free and tenant_id in self.tenant_ids

    def bring(self, job: Job) -> bool:
        """Keep a promise; return False if the waiter has left."""
        if self.is_gone:
            return False
        self.brought.append(job)
        self.withdraw()
        return True

    def withdraw(self) -> None:
        """Withdraw one promise."""
        self.promised -= 1
        if not self.promised:
            self.wake.set()


class Waiters:
    """Wakes waiters by job type: immediately for jobs of this process, by notification for jobs of others.

    A notification may be lost, so one statement for all waiters polls a few times a second.
    """

    def __init__(self, database: Database, tokens: Tokens) -> None:
        self._database = database
        self._tokens = tokens
        self._waiters: dict[str, list[Waiter]] = {}
        self._known_empty: dict[str, set[tuple[str, ...]]] = {}
        self._unannounced: set[str] = set()
        self._listening = PollLoop("engine-hints-in", self._listen, every=_LISTEN_AGAIN)
        self._announcing = PollLoop("engine-hints-out", self._announce, every=None)
        self.services = (self._listening, PollLoop("engine-look", self._look, every=_LOOK), self._announcing)

    @contextmanager
    def register(self, waiter: Waiter) -> Iterator[None]:
        """Register a waiter. Clear `wake`, query, and only then wait for it."""
        kind = waiter.ask.type
        self._waiters.setdefault(kind, []).append(waiter)
        try:
            yield
        finally:
            waiter.is_gone = True
            self._waiters[kind].remove(waiter)
            if not self._waiters[kind]:
                del self._waiters[kind]

    def is_known_empty(self, waiter: Waiter) -> bool:
        """Return whether the same request found no jobs and none were announced since."""
        return waiter.tenant_ids in self._known_empty.get(waiter.ask.type, ())

    @contextmanager
    def asking(self, waiter: Waiter) -> Iterator[list[Job]]:
        """Collect the jobs of a query; fewer than requested means that there are no more."""
        jobs: list[Job] = []
        # Marked before the query: a job created from now on removes the mark.
        self._known_empty.setdefault(waiter.ask.type, set()).add(waiter.tenant_ids)
        is_answered = False
        try:
            yield jobs
            is_answered = True
        finally:
            if len(jobs) >= waiter.most or not is_answered:
                self._known_empty.pop(waiter.ask.type, None)

    def promise(self, kind: str, tenant_id: str) -> Waiter | None:
        """Promise a job to a waiter for its type; None without one."""
        for waiter in self._waiters.get(kind, ()):
            if waiter.has_room(tenant_id):
                waiter.promised += 1
                return waiter
        return None

    def tell(self, kinds: Iterable[str]) -> None:
        """Announce new jobs of this process: local waiters wake now, other processes soon."""
        for kind in kinds:
            if kind in self._waiters:
                self._ring(kind)
            else:
                self._known_empty.pop(kind, None)
                # A notification costs a commit, so it is sent only for types without a local waiter.
                self._unannounced.add(kind)
                self._announcing.poke()

    def _ring(self, kind: str) -> None:
        self._known_empty.pop(kind, None)
        for waiter in self._waiters.get(kind, ()):
            waiter.wake.set()

    async def _listen(self) -> int:
        await self._database.listen(CHANNEL, self._take_hint, self._listening.health.note_success)
        return 0

    def _take_hint(self, hint: str) -> None:
        for kind in orjson.loads(hint) if hint.startswith("[") else list(self._waiters):
            self._ring(kind)

    async def _look(self) -> int:
        waiters = [(kind, waiter) for kind, some in self._waiters.items() for waiter in some]
        wanted = {(kind, tenant) for kind, waiter in waiters for tenant in waiter.tenant_ids}
        for kind in await self._tokens.due_types(sorted(wanted)) if wanted else ():
            self._ring(kind)
        return 0

    async def _announce(self) -> int:
        if not self._unannounced:
            return 0
        await asyncio.sleep(_GATHER)
        kinds, self._unannounced = self._unannounced, set()
        hint = orjson.dumps(sorted(kinds)).decode()
        try:
            await self._database.notify(CHANNEL, hint if len(hint.encode()) < _LONGEST else "all")
        except BaseException:
            self._unannounced |= kinds
            raise
        return len(kinds)


def job_of(taken: Activation, variables: Variables, ask: Ask, version: int) -> Job:
    """Return the job with the variables its worker asked for."""
    kept = taken.kept
    wanted = {name: variables[name] for name in ask.variables if name in variables} if ask.variables else variables
    return Job(
        key=taken.key,
        type=taken.type,
        retries=taken.retries,
        activated_ms=taken.activated_ms,
        timeout_ms=ask.timeout_ms,
        process_instance_key=kept.instance_key,
        element_instance_key=taken.element_instance_key,
        process_definition_key=kept.definition_key,
        process_version=version,
        process_id=kept.process_id,
        element_id=taken.element_id,
        tenant_id=kept.tenant_id,
        variables=wanted,
        headers=orjson.loads(taken.headers),
    )


@dataclass(frozen=True, slots=True)
class PromisedJobs:
    """The new jobs of one step that are promised to waiters. Its end, as a context, withdraws promises not kept.

    If the answer to the save is lost, its jobs stay locked until their timeout, as with any worker that dies.
    """

    turn: InstanceStep
    waiters: dict[int, Waiter]
    unread: Callable[[list[Job]], None]
    kept: set[int] = field(default_factory=set)

    def keep(self, version: int, at_ms: int) -> None:
        """Deliver every promised job to its waiter after the step is saved."""
        kept = self.turn.snapshot()
        for key, waiter in self.waiters.items():
            made = self.turn.change.jobs[key]
            values = made.key, made.type, made.element_id, made.element_instance_key, made.retries, made.headers
            seen = visible_at(self.turn.state, made.element_instance_key)
            job = job_of(Activation(*values, at_ms, kept), seen, waiter.ask, version)
            self.kept.add(key)
            if not waiter.bring(job):
                self.unread([job])

    def withdraw(self) -> None:
        """Withdraw what was not kept."""
        for key, waiter in self.waiters.items():
            if key not in self.kept:
                waiter.withdraw()

    def __enter__(self) -> Self:
        """Return the promises."""
        return self

    def __exit__(self, *_: object) -> None:
        """Withdraw what was not kept."""
        self.withdraw()


class DirectHandoff:
    """Promises jobs before they are saved, so that one statement saves and activates them."""

    def __init__(self, waiters: Waiters, unread: Callable[[list[Job]], None]) -> None:
        self._waiters = waiters
        self._unread = unread

    def promise(self, turn: InstanceStep) -> PromisedJobs:
        """Promise the jobs that the step creates to waiters for them."""
        change, waiters = turn.change, dict[int, Waiter]()
        for key, made in change.jobs.items():
            waiter = self._waiters.promise(made.type, turn.kept.tenant_id)
            if waiter is not None:
                waiters[key] = waiter
                change.jobs[key] = replace(made, worker=waiter.ask.worker, timeout_ms=waiter.ask.timeout_ms)
        return PromisedJobs(turn, waiters, self._unread)


class JobActivation:
    """Activates jobs; concurrent requests share one statement."""

    def __init__(self, tokens: Tokens, definitions: DefinitionCache, waiters: Waiters, memory: InstanceCache) -> None:
        self._tokens = tokens
        self._definitions = definitions
        self._waiters = waiters
        self._memory = memory
        # Two requests for one type in one statement would receive the same jobs.
        self._requests: Batch[tuple[ActivationRequest, Ask], list[Job]] = Batch(
            self._hand_out, lambda request: request[0].type, name="engine-activations", unread=self.take_back
        )
        self._unread: deque[list[Job]] = deque()
        self._giving_back = PollLoop("engine-give-back", self._give_back, every=None)
        self.services = (self._requests, self._giving_back)

    async def take(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        """Return up to `limit` jobs, waiting up to `wait_ms` for the first."""
        if not ask.type:
            raise CommandInvalid("a poll needs a type to be present")
        tenants = tuple(ask.tenant_ids) or (DEFAULT_TENANT,)
        waiter = Waiter(ask, tenants, limit, has_time=wait_ms > 0)
        give_up = asyncio.get_running_loop().time() + max(wait_ms, 0) / 1000
        with self._waiters.register(waiter):
            try:
                return await self._wait(waiter, give_up)
            except BaseException:
                self.take_back(waiter.brought)
                raise

    async def _wait(self, waiter: Waiter, give_up: float) -> list[Job]:
        ask, clock = waiter.ask, asyncio.get_running_loop().time
        request = ActivationRequest(ask.type, waiter.tenant_ids, ask.worker, ask.timeout_ms, waiter.most)
        while True:
            waiter.wake.clear()
            if not waiter.promised:
                jobs = waiter.brought or await self._ask(waiter, request)
                if jobs or clock() >= give_up:
                    return jobs
            elif clock() >= give_up:
                return waiter.brought
            waiter.is_waiting = True
            with suppress(TimeoutError):
                async with asyncio.timeout_at(give_up):
                    await waiter.wake.wait()
            waiter.is_waiting = False

    async def _ask(self, waiter: Waiter, request: ActivationRequest) -> list[Job]:
        """Query the database; a waiter with time left skips the query while its type is known to be exhausted."""
        if waiter.has_time and self._waiters.is_known_empty(waiter):
            return []
        with self._waiters.asking(waiter) as jobs:
            jobs += await self._requests.add((request, waiter.ask))
        return jobs

    async def _hand_out(self, requests: list[tuple[ActivationRequest, Ask]]) -> list[list[Job]]:
        given = await self._tokens.activate([request for request, _ in requests])
        return [[await self._job(one, ask) for one in some] for some, (_, ask) in zip(given, requests, strict=True)]

    async def _job(self, taken: Activation, ask: Ask) -> Job:
        kept = taken.kept
        compiled = await self._definitions.find(kept.definition_key)
        known = CachedInstance(kept, orjson.loads(kept.variables))
        self._memory.keep(known)
        seen: Variables = known.variables
        if has_own_variables(kept.state):
            seen = visible_at(known.read(), taken.element_instance_key)
        return job_of(taken, seen, ask, compiled.version)

    def take_back(self, jobs: list[Job]) -> None:
        """Take back jobs that were not received."""
        if jobs:
            self._unread.append(jobs)
            self._giving_back.poke()

    async def _give_back(self) -> int:
        if not self._unread:
            return 0
        jobs = self._unread[0]
        # Kept until written. Each job is identified with its activation, so a later activation is not affected.
        await self._tokens.give_back([(job.key, job.activated_ms) for job in jobs])
        self._unread.popleft()
        self._waiters.tell({job.type for job in jobs})
        return len(jobs)
