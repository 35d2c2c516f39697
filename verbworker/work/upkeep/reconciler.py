"""The reconciler: what ended in the engine without a word to us is found and told, never left standing.

And the other way round: an engine that lost its last records may have forgotten the end of an instance. Each is asked
for once more after its entry ended, and cancelled if it is there. An engine in our own database forgets nothing alone.

Plain gRPC has no search, so it asks for each quiet instance whether it is still there. A cluster with the search of
REST could be asked for many at once, and for the waits of each; gates are looked after by their own relay.
"""

import logging
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.engine.protocol import Engine, SameDatabase
from verbworker.errors import JobGone
from verbworker.stores.cases.instances import MISSED_FOR, Instances, Quiet
from verbworker.stores.database import Database
from verbworker.work.starts.cancel import Cancellation

_log = logging.getLogger(__name__)

_BATCH = 50
_CONCURRENT_CALLS = 8


class Reconciler:
    """Looks after instances of which nothing was heard for `after`. Any number may run beside each other."""

    def __init__(
        self,
        database: Database,
        engine: Engine,
        cancelling: Cancellation,
        *,
        after: timedelta = timedelta(minutes=10),
        missed_for: timedelta = MISSED_FOR,
        every: float = 30.0,
    ) -> None:
        self._engine = engine
        self._cancelling = cancelling
        self._instances = Instances(database)
        self._after = after
        self._missed_for = missed_for
        self._forgets = not (isinstance(engine, SameDatabase) and engine.shares(database))
        self.service = PollLoop("reconciler", self.look, every=every)

    async def look(self) -> int:
        """Ask once for each quiet instance and for each that should have ended; returns how many there were."""
        engine_id = self._engine.engine_id
        quiet = await self._instances.quiet(
            engine_id, longer_than=self._after, limit=_BATCH, missed_for=self._missed_for
        )
        await self.service.for_each(quiet, _CONCURRENT_CALLS, self._ask)
        if not self._forgets:
            return len(quiet)
        ended = await self._instances.lingering(engine_id, longer_than=self._after, limit=_BATCH)
        await self.service.for_each(ended, _CONCURRENT_CALLS, self._see_off)
        return len(quiet) + len(ended)

    async def check(self, instance_uid: UUID) -> None:
        """Look at one instance soon, because a job of it is gone.

        Not at once: a broker that lost its last records hands the instance out again under another key, and then it
        is adopted.
        """
        known = await self._instances.known(instance_uid)
        if known is None or known.has_ended or known.instance_key is None:
            return
        if not await self._engine.alive(known.instance_key):
            await self._instances.miss(instance_uid, known.instance_key)

    async def _ask(self, instance: Quiet) -> None:
        """End an entry whose instance the engine did not have twice, a while apart, and of which it has no other.

        Once is enough where the engine is in our own database.
        """
        if await self._engine.alive(instance.instance_key):
            return
        is_sure = instance.is_missed or not self._forgets
        if not is_sure or not await self._cancelling.end_outside(instance.entry_id, instance.instance_key):
            await self._instances.miss(instance.instance_uid, instance.instance_key)
        else:
            said = {"instance_key": instance.instance_key, "entry_id": str(instance.entry_id)}
            _log.warning("an instance ended outside", extra=said)

    async def _see_off(self, instance: Quiet) -> None:
        """Cancel an instance whose entry has ended, if the engine has it."""
        if not await self._engine.alive(instance.instance_key):
            await self._instances.gone(instance.instance_uid, instance.instance_key)
            return
        said = {"instance_key": instance.instance_key, "entry_id": str(instance.entry_id)}
        _log.warning("the engine brought back an instance whose entry has ended; it is cancelled", extra=said)
        with suppress(JobGone):
            await self._engine.cancel(instance.instance_key)
        metrics.DUPLICATES.inc()
