"""The hall: where those wait who asked for jobs and got none, and how they hear that it is worth asking again."""

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
    """Somebody who asked for jobs. While they wait, jobs may be promised to them; what is promised comes, or does not.

    The bell rings when it is worth asking again, and when the last promise was kept or withdrawn.
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
        """Whether a job of this tenant may be promised to them."""
        is_free = self.is_waiting and not self.brought and self.promised < self.most
        return is_free and tenant_id in self.tenant_ids

    def bring(self, job: Job) -> bool:
        """Keep a promise; False when they have left meanwhile."""
        if self.is_gone:
            return False
        self.brought.append(job)
        self.withdraw()
        return True

    def withdraw(self) -> None:
        """One promise less."""
        self.promised -= 1
        if not self.promised:
            self.bell.set()


class Waiters:
    """Wakes whoever waits for a type of job: at once for what this process made, by a hint for what others made.

    A hint may be lost, so the hall looks for itself a few times a second: one statement for all who wait.
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
        """Be in the hall. Clear the bell, ask, and only then wait for it."""
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
        """Whether somebody asked for the same in vain, and nothing was heard of such jobs since."""
        return guest.tenant_ids in self._sold_out.get(guest.ask.type, ())

    @contextmanager
    def asking(self, guest: Waiter) -> Iterator[list[Job]]:
        """Ask the database, and put what it gave into the list; less than was asked for means that there is no more."""
        jobs: list[Job] = []
        # Marked before asking: whoever makes such a job from now on takes the mark away.
        self._sold_out.setdefault(guest.ask.type, set()).add(guest.tenant_ids)
        is_answered = False
        try:
            yield jobs
            is_answered = True
        finally:
            if len(jobs) >= guest.most or not is_answered:
                self._sold_out.pop(guest.ask.type, None)

    def promise(self, kind: str, tenant_id: str) -> Waiter | None:
        """Promise a job to somebody who waits for its type, if there is somebody."""
        for guest in self._guests.get(kind, ()):
            if guest.has_room(tenant_id):
                guest.promised += 1
                return guest
        return None

    def tell(self, kinds: Iterable[str]) -> None:
        """This process made jobs of these types: who waits here hears it now, the others soon."""
        for kind in kinds:
            if kind in self._guests:
                self._ring(kind)
            else:
                self._sold_out.pop(kind, None)
                # The announcement costs a commit, so it is made only for what nobody here will take.
                self._untold.add(kind)
                self._announcing.poke()

    def _ring(self, kind: str) -> None:
        self._sold_out.pop(kind, None)
        for guest in self._guests.get(kind, ()):
            guest.bell.set()

    async def _listen(self) -> int:
        await self._database.listen(CHANNEL, self._heard, self._listening.health.succeeded)
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
