"""The counter: where jobs are handed out, each to one asker at a time."""

import asyncio
import logging
from contextlib import suppress
from typing import Any, Final

import orjson

from verbworker.engine import Ask
from verbworker.engines.embedded.hall import Hall
from verbworker.engines.embedded.library import Library
from verbworker.engines.embedded.memory import Memory, Remembered
from verbworker.errors import CommandInvalid, StoreError
from verbworker.job import Job
from verbworker.stores._batch import Batch
from verbworker.stores.tokens import Activation, Tokens, Wish

_log = logging.getLogger(__name__)

DEFAULT_TENANT: Final = "<default>"


class Counter:
    """Hands out jobs: what is asked for at the same time goes out by one statement."""

    def __init__(self, tokens: Tokens, library: Library, hall: Hall, memory: Memory) -> None:
        self._tokens = tokens
        self._library = library
        self._hall = hall
        self._memory = memory
        # Two wishes for one type in one statement would be given the same jobs.
        self._wishes: Batch[tuple[Wish, Ask], list[Job]] = Batch(
            self._hand_out, lambda wish: wish[0].type, unread=self._returned
        )
        self._unread: asyncio.Queue[list[Job]] = asyncio.Queue()

    async def run(self) -> None:
        """Hand out, and take back what nobody was there to receive, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._wishes.run())
            tasks.create_task(self._give_back())

    async def take(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        """Up to `limit` jobs, after up to `wait_ms` for the first."""
        if not ask.type:
            raise CommandInvalid("a poll needs a type to be present")
        tenants = tuple(ask.tenant_ids) or (DEFAULT_TENANT,)
        wish = Wish(ask.type, tenants, ask.worker, ask.timeout_ms, limit)
        clock = asyncio.get_running_loop().time
        give_up = clock() + max(wait_ms, 0) / 1000
        with self._hall.attending(ask.type, tenants) as bell:
            while True:
                bell.clear()
                jobs = await self._wishes.add((wish, ask))
                if jobs or clock() >= give_up:
                    return jobs
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(give_up):
                        await bell.wait()

    async def _hand_out(self, wishes: list[tuple[Wish, Ask]]) -> list[list[Job]]:
        given = await self._tokens.activate([wish for wish, _ in wishes])
        return [[await self._job(one, ask) for one in some] for some, (_, ask) in zip(given, wishes, strict=True)]

    async def _job(self, taken: Activation, ask: Ask) -> Job:
        kept = taken.kept
        book = await self._library.find(kept.definition_key)
        variables: dict[str, Any] = orjson.loads(kept.variables)
        self._memory.keep(Remembered(kept, variables))
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
            process_version=book.version,
            process_id=kept.process_id,
            element_id=taken.element_id,
            tenant_id=kept.tenant_id,
            variables=wanted,
            headers=orjson.loads(taken.headers),
        )

    def _returned(self, jobs: list[Job]) -> None:
        if jobs:
            self._unread.put_nowait(jobs)

    async def _give_back(self) -> None:
        while True:
            jobs = await self._unread.get()
            try:
                await self._tokens.give_back([(job.key, job.activated_ms) for job in jobs])
            except StoreError as error:
                # They are handed out again after their time.
                _log.info("unread jobs not given back", extra={"count": len(jobs), "reason": str(error)})
            else:
                self._hall.tell({job.type for job in jobs})
