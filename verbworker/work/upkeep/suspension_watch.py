"""Suspended instances: the entry is parked, commands wait, and all goes on when the engine accepts them again.

Camunda 8.10 can suspend an instance. It hands out none of its jobs then and refuses every command for those that were
handed out before. Nothing failed: a verdict stays in its frame and is sent by the relay, a failure is reported by the
sweep. This service asks, for one refused job of each suspended instance, whether the engine accepts commands again. The
decision of a native user task has no job: the relay that sends it finds out.
"""

import logging
from datetime import timedelta

from verbworker.background.poll_loop import PollLoop
from verbworker.engine.protocol import Engine
from verbworker.errors import EngineError, EngineUnavailable, InstanceSuspended
from verbworker.stores.cases.suspensions import Suspended, Suspensions

_log = logging.getLogger(__name__)

_BATCH = 100  # instances per round; the others come next
_CONCURRENT_CALLS = 8  # calls of the engine; more would only queue there


class SuspensionWatch:
    """Ends the waits of instances that were resumed. Of any number of workers one asks about an instance."""

    def __init__(
        self,
        suspensions: Suspensions,
        engine: Engine,
        *,
        timeout: timedelta = timedelta(seconds=60),
        every: timedelta = timedelta(seconds=5),
    ) -> None:
        self._suspensions = suspensions
        self._engine = engine
        self._timeout_ms = int(timeout / timedelta(milliseconds=1))
        self._every = every
        self.service = PollLoop("suspensions", self.look, every=every.total_seconds())

    async def look(self) -> int:
        """Ask about suspended instances that no worker asked about lately; return 0: the next look is at the next tick.

        Half a period is lately: of two workers one asks, and a worker that runs alone asks at each tick.
        """
        suspended = await self._suspensions.due(_BATCH, unasked_for=self._every / 2)
        await self.service.for_each(suspended, _CONCURRENT_CALLS, self._ask)
        return 0

    async def _ask(self, one: Suspended) -> None:
        assert one.job_key is not None, "only those with a job are due"
        try:
            # Accepted without a lease token, and an active job keeps its worker: this only asks.
            await self._engine.extend(one.job_key, self._timeout_ms)
        except InstanceSuspended:
            return
        except EngineUnavailable:
            raise
        except EngineError as error:
            # Gone, leased to another worker or in a backoff: any other refusal is about the job alone.
            _log.debug("job of a suspended instance", extra={"job_key": one.job_key, "reason": str(error)})
        await self._suspensions.resume(one)
