"""The reconciler: what ended in the engine without a word to us is found and told, never left standing.

Plain gRPC has no search, so it asks for each quiet instance whether it is still there. A cluster with the search of
REST could be asked for many at once, and for the waits of each; gates are looked after by their own relay.
"""

import asyncio
import logging
import random
from datetime import timedelta
from uuid import UUID

from verbworker.engine import Engine
from verbworker.errors import EngineError, StoreError
from verbworker.stores._database import Database
from verbworker.stores.instances import Instances
from verbworker.work.cancelling import Cancelling

_log = logging.getLogger(__name__)

_AT_ONCE = 50


class Reconciler:
    """Looks after instances of which nothing was heard for `after`. Any number may run beside each other."""

    def __init__(
        self,
        database: Database,
        engine: Engine,
        cancelling: Cancelling,
        *,
        after: timedelta = timedelta(minutes=10),
        every: float = 30.0,
    ) -> None:
        self._engine = engine
        self._cancelling = cancelling
        self._instances = Instances(database)
        self._after = after
        self._every = every

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            try:
                while await self.look():
                    pass
            except (StoreError, EngineError) as error:
                _log.info("nothing reconciled for now", extra={"reason": str(error)})
            await asyncio.sleep(self._every * (0.5 + random.random()))

    async def look(self) -> int:
        """Ask for each quiet instance once; returns how many there were."""
        quiet = await self._instances.quiet(self._engine.engine_id, longer_than=self._after, limit=_AT_ONCE)
        for instance in quiet:
            await self._ask(instance.entry_id, instance.instance_key)
        return len(quiet)

    async def check(self, instance_uid: UUID) -> bool:
        """Ask for one instance now, because a job of it is gone; True when it had ended outside."""
        known = await self._instances.known(instance_uid)
        if known is None or known.has_ended or known.instance_key is None:
            return False
        return await self._ask(known.entry_id, known.instance_key)

    async def _ask(self, entry_id: UUID, instance_key: int) -> bool:
        if await self._engine.alive(instance_key) or not await self._cancelling.end_outside(entry_id, instance_key):
            return False
        _log.warning("an instance ended outside", extra={"instance_key": instance_key, "entry_id": str(entry_id)})
        return True
