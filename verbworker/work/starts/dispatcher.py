"""The dispatcher: has the engine start requested cases, each once, however long the engine is unavailable."""

import logging
from collections.abc import Sequence
from datetime import timedelta

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.engine.protocol import Engine, SameDatabase, Start, Started, same_database
from verbworker.errors import (
    AccessDenied,
    Backpressure,
    CommandInvalid,
    EngineError,
    EngineUnavailable,
    JobGone,
    StoreConflict,
    StoreUnavailable,
    VerbworkerError,
)
from verbworker.retrying import STORED
from verbworker.stores.cases.dispatches import Dispatch, Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Connection

_log = logging.getLogger(__name__)

_CONCURRENT_CALLS = 16  # calls of the engine; more would only queue there
_CLAIMED_FOR = timedelta(seconds=30)  # what a process that died had claimed is claimed again after that
_COUNT_EVERY = 10.0  # seconds between two looks at the gauge
_SURE = (Backpressure, CommandInvalid, AccessDenied)
"""Refusals that certainly started nothing; after any other failure an instance may exist."""


class _NotPinned(VerbworkerError):
    """An instance could not be pinned to its entry, so it must not exist."""


class Dispatcher:
    """Drains the dispatch table into the engine. Any number of instances may run concurrently."""

    def __init__(
        self,
        dispatches: Dispatches,
        instances: Instances,
        engine: Engine,
        *,
        every: float = 1.0,
        tenant: str | None = None,
    ) -> None:
        self._dispatches = dispatches
        self._instances = instances
        self._engine = engine
        self._tenant = tenant
        self._shared = same_database(engine, instances.database)
        self.service = PollLoop("starts", self.drain, every=every, chore=self.count, chore_every=_COUNT_EVERY)

    async def count(self) -> None:
        """Set the gauges of cases that the engine has not started."""
        waiting, oldest = await self._dispatches.backlog()
        metrics.WAITING_STARTS.set(waiting)
        metrics.WAITING_STARTS_AGE.set(oldest)

    async def drain(self) -> int:
        """Send each due request to the engine once; return how many there were."""
        due = await self._dispatches.claim(_CONCURRENT_CALLS, claim_for=_CLAIMED_FOR)
        if len(due) < 2 or not await self._start_together(due):
            await self.service.for_each(due, _CONCURRENT_CALLS, self.start)
        return len(due)

    async def start(self, dispatch: Dispatch) -> None:
        """Have the engine start one claimed request, and record its answer."""
        if self._shared is not None:
            await self._start_and_pin(self._shared, dispatch)
            return
        try:
            started = await self._engine.start(self._request(dispatch))
        except EngineError as error:
            await self._postpone(dispatch, error)
            return
        try:
            pinned = await self._instances.pin(
                dispatch.instance_uid,
                instance_key=started.instance_key,
                definition_key=started.definition_key,
                version=started.version,
            )
            if not pinned and await self._instances.key_of(dispatch.instance_uid) != started.instance_key:
                await self._cancel_twin(dispatch, started.instance_key)
        except (StoreUnavailable, StoreConflict) as error:
            # Its first job pins it; if none arrives, we ask again, and the twin is cancelled at its first job.
            _log.warning("started, but not noted", extra={"entry_id": str(dispatch.entry_id), "reason": str(error)})

    def _request(self, dispatch: Dispatch) -> Start:
        return Start(dispatch.process_id, dispatch.variables, tenant_id=self._tenant)

    # ---- an engine in our own database ---------------------------------------------------------------------------

    async def _start_together(self, due: Sequence[Dispatch]) -> bool:
        """Start several requests in one commit; return False if each has to be tried alone."""
        if self._shared is None:
            return False
        try:
            await self._start_with(self._shared, due)
        except (EngineError, _NotPinned) as error:
            _log.info("batch not started; starting each alone", extra={"requests": len(due), "reason": str(error)})
            return False
        return True

    async def _start_and_pin(self, engine: SameDatabase, dispatch: Dispatch) -> None:
        try:
            await self._start_with(engine, [dispatch])
        except _NotPinned:
            # Pinned or cancelled meanwhile: the surplus instance was never created.
            _log.info("start dropped: the entry has ended or was started", extra={"entry_id": str(dispatch.entry_id)})
        except EngineError as error:
            await self._postpone(dispatch, error)

    async def _start_with(self, engine: SameDatabase, due: Sequence[Dispatch]) -> None:
        """Start and pin in one commit: an instance never exists without its entry knowing it."""

        async def pin(connection: Connection, started: Sequence[Started]) -> None:
            uids = [dispatch.instance_uid for dispatch in due]
            if len(await self._instances.pin_in(connection, dict(zip(uids, started, strict=True)))) < len(due):
                raise _NotPinned("an entry has ended, or is pinned already")

        await engine.start_with([self._request(dispatch) for dispatch in due], pin)

    async def _cancel_twin(self, dispatch: Dispatch, instance_key: int) -> None:
        _log.warning("an earlier start had come through; the second is cancelled", extra={"instance_key": instance_key})
        try:
            await self._engine.cancel(instance_key)
        except JobGone:
            return
        except EngineError as error:
            # It is cancelled at its first job, which belongs to no entry.
            _log.warning("duplicate instance not cancelled", extra={"instance_key": instance_key, "reason": str(error)})

    async def _postpone(self, dispatch: Dispatch, error: EngineError) -> None:
        pause = STORED.after(dispatch.attempts)
        sure = isinstance(error, _SURE)
        if isinstance(error, EngineUnavailable):
            self.service.report(error)
        else:
            self.service.health.note_refusal(error, "not started yet", entry_id=str(dispatch.entry_id))
        try:
            await self._dispatches.postpone(
                dispatch.instance_uid, by=timedelta(seconds=pause), reason=str(error), surely_unstarted=sure
            )
        except (StoreUnavailable, StoreConflict):
            return  # the claim expires by itself
