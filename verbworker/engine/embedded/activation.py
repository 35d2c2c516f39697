"""Job activation: gives each job to one worker at a time."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any, Final

import orjson

from verbworker.background.poll_loop import PollLoop
from verbworker.engine.embedded.definition_cache import DefinitionCache
from verbworker.engine.embedded.direct_handoff import job_of
from verbworker.engine.embedded.instance_cache import CachedInstance, InstanceCache
from verbworker.engine.embedded.waiters import Waiter, Waiters
from verbworker.engine.protocol import Ask
from verbworker.errors import CommandInvalid
from verbworker.job.job import Job
from verbworker.stores.batch import Batch
from verbworker.stores.embedded.tokens import Activation, Tokens, Wish

DEFAULT_TENANT: Final = "<default>"


class JobActivation:
    """Activates jobs; concurrent requests share one statement."""

    def __init__(self, tokens: Tokens, library: DefinitionCache, hall: Waiters, memory: InstanceCache) -> None:
        self._tokens = tokens
        self._library = library
        self._hall = hall
        self._memory = memory
        # Two requests for one type in one statement would receive the same jobs.
        self._wishes: Batch[tuple[Wish, Ask], list[Job]] = Batch(
            self._hand_out, lambda wish: wish[0].type, name="engine-activations", unread=self.take_back
        )
        self._unread: deque[list[Job]] = deque()
        self._giving_back = PollLoop("engine-give-back", self._give_back, every=None)
        self.services = (self._wishes, self._giving_back)

    async def take(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        """Return up to `limit` jobs, waiting up to `wait_ms` for the first."""
        if not ask.type:
            raise CommandInvalid("a poll needs a type to be present")
        tenants = tuple(ask.tenant_ids) or (DEFAULT_TENANT,)
        guest = Waiter(ask, tenants, limit, has_time=wait_ms > 0)
        give_up = asyncio.get_running_loop().time() + max(wait_ms, 0) / 1000
        with self._hall.attending(guest):
            try:
                return await self._wait(guest, give_up)
            except BaseException:
                self.take_back(guest.brought)
                raise

    async def _wait(self, guest: Waiter, give_up: float) -> list[Job]:
        ask, clock = guest.ask, asyncio.get_running_loop().time
        wish = Wish(ask.type, guest.tenant_ids, ask.worker, ask.timeout_ms, guest.most)
        while True:
            guest.bell.clear()
            if not guest.promised:
                jobs = guest.brought or await self._ask(guest, wish)
                if jobs or clock() >= give_up:
                    return jobs
            elif clock() >= give_up:
                return guest.brought
            guest.is_waiting = True
            with suppress(TimeoutError):
                async with asyncio.timeout_at(give_up):
                    await guest.bell.wait()
            guest.is_waiting = False

    async def _ask(self, guest: Waiter, wish: Wish) -> list[Job]:
        """Query the database; a waiter with time left skips the query while its type is known to be exhausted."""
        if guest.has_time and self._hall.is_sold_out(guest):
            return []
        with self._hall.asking(guest) as jobs:
            jobs += await self._wishes.add((wish, guest.ask))
        return jobs

    async def _hand_out(self, wishes: list[tuple[Wish, Ask]]) -> list[list[Job]]:
        given = await self._tokens.activate([wish for wish, _ in wishes])
        return [[await self._job(one, ask) for one in some] for some, (_, ask) in zip(given, wishes, strict=True)]

    async def _job(self, taken: Activation, ask: Ask) -> Job:
        kept = taken.kept
        book = await self._library.find(kept.definition_key)
        variables: dict[str, Any] = orjson.loads(kept.variables)
        self._memory.keep(CachedInstance(kept, variables))
        return job_of(taken, variables, ask, book.version)

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
        self._hall.tell({job.type for job in jobs})
        return len(jobs)
