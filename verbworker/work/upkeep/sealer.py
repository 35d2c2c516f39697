"""Seals the record: once a second, one worker of many chains where the entries are now to the seal before."""

import asyncio
import logging
from datetime import timedelta
from uuid import UUID

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.errors import CannotRun
from verbworker.stores.cases.seals import Seals
from verbworker.stores.upkeep_turns import UpkeepTurns

_log = logging.getLogger(__name__)

# What is written in between can be removed unseen; a round with nothing to seal is one statement.
_EVERY = timedelta(seconds=1)
# Lines of one seal: some megabytes at most, and a transaction well under a second.
_BATCH = 5000
# Entries looked at per turn, in pages, for those from before seals.
_PAGE = 1000
_PAGES_EVERY = 3600.0
# A refusal stays until a person looks: one line a minute is enough.
_SAID_EVERY = 60.0

SERVICE = "seal"
ANY_ENGINE = "*"
"""The engine id of the turn: the record is one for all engines of a database."""


class Sealer:
    """Seals what moved. Any number of workers may run it; one at a time has the turn.

    Besides, it goes through all entries in pages, first when it starts and then every hour: for those from before
    seals, and those of a database that was restored, whose transactions have other numbers.
    """

    def __init__(self, seals: Seals, turns: UpkeepTurns, *, every: timedelta = _EVERY) -> None:
        self._seals = seals
        self._turns = turns
        self._every = every
        self._is_signed = False
        self._after: UUID | None = None
        self._pages_at = 0.0
        self._say_at = 0.0
        self.service = PollLoop(SERVICE, self.work, every=every.total_seconds())

    async def work(self) -> int:
        """Take the turn if it is due, and seal a batch; return how many entries were left for the next one."""
        turn = await self._turns.take()
        if turn is None:
            return 0
        is_more = False
        try:
            is_more = await self._seal()
        except CannotRun as error:
            self._note_refusal(error)
        await self._turns.finish(turn, next_after=timedelta(0) if is_more else self._every)
        return int(is_more)

    async def _seal(self) -> bool:
        if not self._is_signed:
            await self._seals.sign_last()
            self._is_signed = True
        batch = await self._seals.seal_moves(limit=_BATCH)
        if batch is None:
            return False
        if batch.is_restored and self._after is None:
            self._pages_at = 0.0
        if not batch.is_more:
            await self._seal_page()
        return batch.is_more

    async def _seal_page(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._after is None and now < self._pages_at:
            return
        page = await self._seals.seal_page(self._after, limit=_PAGE)
        if page is not None:
            self._after = page.after
            self._pages_at = now + _PAGES_EVERY

    def _note_refusal(self, error: CannotRun) -> None:
        metrics.SEALS_REFUSED.inc()
        now = asyncio.get_running_loop().time()
        if now >= self._say_at:
            self._say_at = now + _SAID_EVERY
            _log.error("the record is not sealed", extra={"reason": str(error)})
