"""The reconciler: finds and records instances that ended in the engine without a report to us.

The reverse as well: an engine that lost its last records may have forgotten the end of an instance. Each is checked
once more after its entry ended, and cancelled if it exists. An engine in our own database cannot lose records alone.

Each quiet instance is asked for by a command, which never lags. What only a search can tell is in
`search_reconciler.py`; gates are checked by their own relay.
"""

import logging
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.engine.protocol import Engine, InstanceState, Searchable, same_database
from verbworker.errors import EngineError, JobGone
from verbworker.stores.cases.instances import MISSED_FOR, Instances, QuietInstance
from verbworker.stores.database import Database
from verbworker.work.starts.cancel import Cancellation

_log = logging.getLogger(__name__)

_BATCH = 50  # entries per round; the others come next
_CONCURRENT_CALLS = 8  # calls of the engine; more would only queue there
_ENDS = {
    InstanceState.COMPLETED: "the engine completed the instance without a report to us",
    InstanceState.TERMINATED: "the instance was terminated in the engine",
}


class Reconciler:
    """Checks instances without news for `after`. Any number may run concurrently."""

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
        self._forgets = same_database(engine, database) is None
        self.service = PollLoop("reconciler", self.look, every=every)

    async def look(self) -> int:
        """Check each quiet instance and each that should have ended once; return how many there were."""
        engine_id = self._engine.engine_id
        quiet = await self._instances.quiet(
            engine_id, longer_than=self._after, limit=_BATCH, missed_for=self._missed_for
        )
        await self.service.for_each(quiet, _CONCURRENT_CALLS, self._ask)
        if not self._forgets:
            return len(quiet)
        ended = await self._instances.find_lingering(engine_id, longer_than=self._after, limit=_BATCH)
        await self.service.for_each(ended, _CONCURRENT_CALLS, self._see_off)
        return len(quiet) + len(ended)

    async def check(self, instance_uid: UUID) -> None:
        """Check one instance soon, because a job of it is gone.

        Not immediately: a broker that lost its last records may bring it back under another key, to be adopted.
        """
        known = await self._instances.facts(instance_uid)
        if known is None or known.has_ended or known.instance_key is None:
            return
        if not await self._engine.alive(known.instance_key):
            await self._instances.miss(instance_uid, known.instance_key)

    async def _ask(self, instance: QuietInstance) -> None:
        """Ask the engine for an instance: end its entry if it is missing, and note what is found otherwise.

        An engine that may forget an instance for a while has to miss it twice, some time apart; one in our own database
        does not. An entry that has another instance is not ended.
        """
        try:
            is_alive = await self._engine.alive(instance.instance_key)
        except EngineError:
            await self._instances.look_again(instance.instance_uid, instance.instance_key, self._after)
            raise
        if is_alive:
            if instance.is_missed:
                await self._instances.find_again(instance.instance_uid, instance.instance_key)
            return
        is_sure = instance.is_missed or not self._forgets
        if not is_sure or not await self._end(instance):
            await self._instances.miss(instance.instance_uid, instance.instance_key)
        else:
            fields = {"instance_key": instance.instance_key, "entry_id": str(instance.entry_id)}
            _log.warning("an instance ended outside", extra=fields)

    async def _end(self, instance: QuietInstance) -> bool:
        why = await self._reason(instance.instance_key)
        return await self._cancelling.end_outside(instance.entry_id, instance.instance_key, why=why)

    async def _reason(self, instance_key: int) -> str:
        """Return how the engine says that an instance ended; nothing if it cannot be asked, or does not know yet."""
        if not isinstance(self._engine, Searchable):
            return ""
        try:
            state = (await self._engine.instance_states([instance_key])).get(instance_key)
        except EngineError:
            return ""  # the reason is a courtesy: the end itself is certain
        return _ENDS.get(state, "") if state is not None else ""

    async def _see_off(self, instance: QuietInstance) -> None:
        """Cancel an instance whose entry has ended, if the engine has it."""
        if not await self._engine.alive(instance.instance_key):
            await self._instances.gone(instance.instance_uid, instance.instance_key)
            return
        fields = {"instance_key": instance.instance_key, "entry_id": str(instance.entry_id)}
        _log.warning("the engine brought back an instance whose entry has ended; it is cancelled", extra=fields)
        with suppress(JobGone):
            await self._engine.cancel(instance.instance_key)
        metrics.DUPLICATES.inc()
