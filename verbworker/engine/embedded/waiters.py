"""Pollers waiting for jobs, and how they are woken."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson

from verbworker.background.poll_loop import PollLoop
from verbworker.engine.protocol import Ask
from verbworker.job.job import Job
from verbworker.stores.database import Database
from verbworker.stores.embedded.tokens import Tokens

_log = logging.getLogger(__name__)

CHANNEL = "verbworker_jobs"
_LOOK = 0.25
_LISTEN_AGAIN = 1.0
_GATHER = 0.02
_LONGEST = 7000


@dataclass(slots=True, eq=False)
class Waiter:
    """A poller waiting for jobs. While it waits, jobs may be promised to it; a promise is kept or withdrawn.

    The bell rings when a new request is worthwhile, and when the last promise was kept or withdrawn.
    """

    ask: Ask
    tenant_ids: tuple[str, ...]
    most: int
    has_time: bool
    bell: asyncio.Event = field(default_factory=asyncio.Event)
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
            self.bell.set()


class Waiters:
    """Wakes waiters by job type: immediately for jobs of this process, by notification for jobs of others.

    A notification may be lost, so one statement for all waiters polls a few times a second.
    """

    def __init__(self, database: Database, tokens: Tokens) -> None:
        self._database = database
        self._tokens = tokens
        self._guests: dict[str, list[Waiter]] = {}
        self._sold_out: dict[str, set[tuple[str, ...]]] = {}
        self._untold: set[str] = set()
        self._listening = PollLoop("engine-hints-in", self._listen, every=_LISTEN_AGAIN)
        self._announcing = PollLoop("engine-hints-out", self._announce, every=None)
        self.services = (self._listening, PollLoop("engine-look", self._look, every=_LOOK), self._announcing)

    @contextmanager
    def attending(self, guest: Waiter) -> Iterator[None]:
        """Register a waiter. Clear the bell, query, and only then wait for it."""
        kind = guest.ask.type
        self._guests.setdefault(kind, []).append(guest)
        try:
            yield
        finally:
            guest.is_gone = True
            self._guests[kind].remove(guest)
            if not self._guests[kind]:
                del self._guests[kind]

    def is_sold_out(self, guest: Waiter) -> bool:
        """Return whether the same request found no jobs and none were announced since."""
        return guest.tenant_ids in self._sold_out.get(guest.ask.type, ())

    @contextmanager
    def asking(self, guest: Waiter) -> Iterator[list[Job]]:
        """Collect the jobs of a query; fewer than requested means that there are no more."""
        jobs: list[Job] = []
        # Marked before the query: a job created from now on removes the mark.
        self._sold_out.setdefault(guest.ask.type, set()).add(guest.tenant_ids)
        is_answered = False
        try:
            yield jobs
            is_answered = True
        finally:
            if len(jobs) >= guest.most or not is_answered:
                self._sold_out.pop(guest.ask.type, None)

    def promise(self, kind: str, tenant_id: str) -> Waiter | None:
        """Promise a job to a waiter for its type; None without one."""
        for guest in self._guests.get(kind, ()):
            if guest.has_room(tenant_id):
                guest.promised += 1
                return guest
        return None

    def tell(self, kinds: Iterable[str]) -> None:
        """Announce new jobs of this process: local waiters wake now, other processes soon."""
        for kind in kinds:
            if kind in self._guests:
                self._ring(kind)
            else:
                self._sold_out.pop(kind, None)
                # A notification costs a commit, so it is sent only for types without a local waiter.
                self._untold.add(kind)
                self._announcing.poke()

    def _ring(self, kind: str) -> None:
        self._sold_out.pop(kind, None)
        for guest in self._guests.get(kind, ()):
            guest.bell.set()

    async def _listen(self) -> int:
        await self._database.listen(CHANNEL, self._heard, self._listening.health.note_success)
        return 0

    def _heard(self, words: str) -> None:
        for kind in orjson.loads(words) if words.startswith("[") else list(self._guests):
            self._ring(kind)

    async def _look(self) -> int:
        guests = [(kind, guest) for kind, some in self._guests.items() for guest in some]
        wanted = {(kind, tenant) for kind, guest in guests for tenant in guest.tenant_ids}
        for kind in await self._tokens.due_types(sorted(wanted)) if wanted else ():
            self._ring(kind)
        return 0

    async def _announce(self) -> int:
        if not self._untold:
            return 0
        await asyncio.sleep(_GATHER)
        kinds, self._untold = self._untold, set()
        words = orjson.dumps(sorted(kinds)).decode()
        try:
            await self._database.notify(CHANNEL, words if len(words.encode()) < _LONGEST else "all")
        except BaseException:
            self._untold |= kinds
            raise
        return len(kinds)
