"""The hall: where those wait who asked for jobs and got none, and how they hear that it is worth asking again."""

import asyncio
import logging
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import orjson

from verbworker.backoff import backoff
from verbworker.errors import StoreError
from verbworker.stores._database import Database
from verbworker.stores.tokens import Tokens

_log = logging.getLogger(__name__)

CHANNEL = "verbworker_jobs"
_LOOK = 0.25
_GATHER = 0.02
_LONGEST = 7000


class Hall:
    """Wakes whoever waits for a type of job: at once for what this process made, by a hint for what others made.

    A hint may be lost, so the hall looks for itself a few times a second: one statement for all who wait.
    """

    def __init__(self, database: Database, tokens: Tokens) -> None:
        self._database = database
        self._tokens = tokens
        self._bells: dict[str, dict[asyncio.Event, Sequence[str]]] = {}
        self._untold: set[str] = set()
        self._has_untold = asyncio.Event()
        self._has_guests = asyncio.Event()

    @contextmanager
    def attending(self, kind: str, tenant_ids: Sequence[str]) -> Iterator[asyncio.Event]:
        """A bell that rings when there may be a job of this type. Clear it, ask, and only then wait for it."""
        bell = asyncio.Event()
        self._bells.setdefault(kind, {})[bell] = tenant_ids
        self._has_guests.set()
        try:
            yield bell
        finally:
            del self._bells[kind][bell]
            if not self._bells[kind]:
                del self._bells[kind]
            if not self._bells:
                self._has_guests.clear()

    def tell(self, kinds: Iterable[str]) -> None:
        """This process made jobs of these types: who waits here hears it now, the others soon."""
        for kind in kinds:
            if kind in self._bells:
                self._ring(kind)
            else:
                # The announcement costs a commit, so it is made only for what nobody here will take.
                self._untold.add(kind)
                self._has_untold.set()

    def _ring(self, kind: str) -> None:
        for bell in self._bells.get(kind, ()):
            bell.set()

    async def run(self) -> None:
        """Listen, look and announce until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            tasks.create_task(self._look())
            tasks.create_task(self._announce())

    async def _listen(self) -> None:
        failures = 0
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._database.listen(CHANNEL, self._heard)
            except StoreError as error:
                failures = 0 if asyncio.get_running_loop().time() - began > 1 else failures + 1
                _log.info("not listening for hints", extra={"reason": str(error)})
            await asyncio.sleep(backoff(failures, random.random()))

    def _heard(self, words: str) -> None:
        for kind in orjson.loads(words) if words.startswith("[") else list(self._bells):
            self._ring(kind)

    async def _look(self) -> None:
        while True:
            await self._has_guests.wait()
            await asyncio.sleep(_LOOK)
            wanted = {(kind, tenant) for kind, bells in self._bells.items() for ids in bells.values() for tenant in ids}
            try:
                for kind in await self._tokens.due_types(sorted(wanted)) if wanted else ():
                    self._ring(kind)
            except StoreError as error:
                _log.info("could not look for jobs", extra={"reason": str(error)})

    async def _announce(self) -> None:
        while True:
            await self._has_untold.wait()
            await asyncio.sleep(_GATHER)
            self._has_untold.clear()
            kinds, self._untold = sorted(self._untold), set()
            words = orjson.dumps(kinds).decode()
            try:
                await self._database.notify(CHANNEL, words if len(words.encode()) < _LONGEST else "all")
            except StoreError as error:
                _log.info("hint not sent", extra={"reason": str(error)})
