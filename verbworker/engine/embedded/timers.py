"""Periodic work of the engine: fire due timers, expire messages, delete old ended instances."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from verbworker.background.poll_loop import PollLoop
from verbworker.engine.embedded.instance_step import InstanceStep
from verbworker.engine.embedded.kernel.commands import Fire, TargetMissing
from verbworker.engine.embedded.transaction import EngineStores, EngineTransaction
from verbworker.errors import EngineError, StoreError
from verbworker.stores.database import Database
from verbworker.stores.embedded.token_rows import TokenRows
from verbworker.stores.embedded.tokens import Change, StoredInstance

_log = logging.getLogger(__name__)

_TIMERS = 100  # fired per round
_SWEPT = 1000  # rows per statement, so that none takes long
_LONGEST_REST = 0.5  # a timer that another process sets is found by then
_SWEEP = 10.0  # seconds; nothing waits for what it removes


class EngineTimers:
    """Runs in every process that has the engine open, without a leader. Locked instances are skipped."""

    def __init__(
        self,
        database: Database,
        stores: EngineStores,
        *,
        made: Callable[[list[Change]], None],
        retention: timedelta | None = timedelta(days=7),
    ) -> None:
        self._database = database
        self._stores = stores
        self._made = made
        self._retention = retention
        self._skipped: set[int] = set()
        self._firing = PollLoop("engine-timers", self._fire_due, every=_LONGEST_REST)
        self.services = (self._firing, PollLoop("engine-sweep", self.sweep, every=_SWEEP))

    async def _fire_due(self) -> int:
        fired = await self.fire()
        if not fired:
            seconds = await self._stores.tokens.next_timer()
            if seconds is not None and seconds < _LONGEST_REST:
                # A due timer that was skipped belongs to an instance locked by another process.
                asyncio.get_running_loop().call_later(max(seconds, 0.01), self._firing.poke)
        return fired

    async def fire(self) -> int:
        """Process up to 100 due timers in one transaction; return how many were fired or skipped."""
        async with self._database.transaction() as connection:
            transaction = EngineTransaction(connection, self._stores)
            turns: dict[int, InstanceStep] = {}
            due = await self._stores.tokens.due_timers(connection, _TIMERS, but=self._skipped)
            for wait, kept in due:
                try:
                    turn = turns.get(kept.instance_key) or await transaction.turn(kept)
                    if self._ring(turn, wait, kept):
                        turns[kept.instance_key] = turn
                except (StoreError, EngineError):
                    raise
                except Exception as error:
                    # One instance that cannot be moved must not block the timers of all others.
                    turns.pop(kept.instance_key, None)
                    self._skipped.add(wait)
                    self._firing.health.note_skip(error)
            await transaction.settle_all(list(turns.values()))
        self._made(transaction.changes)
        return len(due)

    def _ring(self, turn: InstanceStep, wait: int, kept: StoredInstance) -> bool:
        waiting = turn.state.waits.get(wait)
        if waiting is not None and waiting.due is not None and kept.now is not None and waiting.due > kept.now:
            return False  # fired between our query and our lock, and set again
        try:
            if waiting is None or waiting.due is None or kept.now is None:
                raise TargetMissing("no timer waits there")
            turn.tell(Fire(wait), kept.now)
        except (TargetMissing, EngineError) as error:
            # Most likely closed meanwhile. A timer that remains must not block the others.
            self._skipped.add(wait)
            fields = {"wait_key": wait, "instance_key": kept.instance_key, "reason": str(error)}
            _log.warning("a timer cannot fire", extra=fields)
            return False
        return True

    async def sweep(self) -> int:
        """Delete batches of expired messages, and of instances and tokens that ended long ago; return how many."""
        self._skipped.clear()  # retry the skipped timers
        expired = await self._stores.subscriptions.expire(_SWEPT)
        if self._retention is None:
            return expired
        instances = await self._stores.tokens.purge(older_than=self._retention, limit=_SWEPT)
        tokens = await TokenRows(self._database).purge(older_than=self._retention, limit=_SWEPT)
        return expired + instances + tokens
