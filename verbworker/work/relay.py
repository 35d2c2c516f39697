"""The relay: sends verdicts again that the engine has not acknowledged, whoever reached them."""

import asyncio
import logging
import random
from datetime import timedelta

from verbworker import metrics
from verbworker.errors import StoreError
from verbworker.stores.frames import Frames, Unacknowledged
from verbworker.work.redelivery import verdict_of
from verbworker.work.returns import Returns

_log = logging.getLogger(__name__)
_AT_ONCE = 8


class Relay:
    """Looks for unacknowledged verdicts every few seconds. Safe from any worker at any time."""

    def __init__(self, frames: Frames, returns: Returns, *, every: timedelta = timedelta(seconds=10)) -> None:
        self._frames = frames
        self._returns = returns
        self._every = every

    async def run(self) -> None:
        """Relay until cancelled."""
        while True:
            await asyncio.sleep(self._every.total_seconds() * (0.75 + 0.5 * random.random()))
            try:
                await self.sweep()
            except StoreError as error:
                _log.warning("relay could not look", extra={"reason": str(error)})

    async def sweep(self) -> int:
        """Send what is due once and return how many verdicts the engine took."""
        due = await self._frames.unacknowledged(older_than=self._every, hold=self._every * 3, limit=200)
        turn = asyncio.Semaphore(_AT_ONCE)

        async def send(frame: Unacknowledged) -> bool:
            async with turn:
                metrics.RELAYS.labels(frame.verb).inc()
                await self._note(frame.job_key)
                return await self._returns.verdict(frame.job_key, verdict_of(frame))

        async with asyncio.TaskGroup() as calls:
            sent = [calls.create_task(send(frame)) for frame in due]
        return sum(task.result() for task in sent)

    async def _note(self, job_key: int) -> None:
        try:
            await self._frames.note(job_key, "relay")
        except StoreError as error:
            # Raised inside the group it would end the relay, and the process with it.
            _log.warning("relay not noted", extra={"job_key": job_key, "reason": str(error)})
