"""Runs of transactional verbs: the writes, the verdict and, if possible, the token's move are one commit."""

import logging
from collections.abc import Callable
from datetime import timedelta

from verbworker import metrics
from verbworker.contract.policy import Policy
from verbworker.engine.protocol import SameDatabase
from verbworker.errors import EngineError, StoreUnavailable
from verbworker.job.failpoint import Point, reach
from verbworker.job.frame import Claim, FrameState
from verbworker.job.outcome import Completed
from verbworker.payload.boundary import AdmittedJob, afresh, variables_of
from verbworker.retrying import VERB_TRANSACTION
from verbworker.stores.database import Connection, Database, plan_by_key
from verbworker.stores.guarded_connection import GuardedConnection
from verbworker.stores.jobs.frames import Frames
from verbworker.work.feeds.leases import RunningJob
from verbworker.work.jobs.perform import VerbRun
from verbworker.work.jobs.verdicts import Verdicts

_log = logging.getLogger(__name__)


class Transactional:
    """Runs verbs in a transaction of their own. An engine in the same database needs no further command."""

    def __init__(
        self, database: Database, frames: Frames, performance: VerbRun, engine: object, popping: Verdicts
    ) -> None:
        self._database = database
        self._frames = frames
        self._performance = performance
        self._popping = popping
        is_here = isinstance(engine, SameDatabase) and engine.shares(database)
        self._engine = engine if isinstance(engine, SameDatabase) and is_here else None

    async def run(self, entered: AdmittedJob, claim: Claim, life: RunningJob, policy: Policy) -> Completed:
        """Run a verb so that its writes and its verdict are one commit: both happen or neither does."""
        limit = timedelta(seconds=policy.start_to_close_timeout_seconds)
        first = iter((entered,))

        async def attempt() -> Completed:
            return await self._attempt(next(first, None) or afresh(entered), claim, life, limit)

        return await VERB_TRANSACTION.run(attempt)

    async def _attempt(self, entered: AdmittedJob, claim: Claim, life: RunningJob, limit: timedelta) -> Completed:
        completed: Completed | None = None
        wake: Callable[[], None] | None = None
        try:
            async with self._database.transaction() as connection:
                db = GuardedConnection(connection)
                answer = await self._performance.perform(entered, claim, life, limit, db)
                reach(Point.PERFORMED)
                await plan_by_key(connection)
                completed = await self._popping.pop_in(connection, entered, claim, answer)
                wake = await self._move(connection, claim, completed)
        except StoreUnavailable:
            # The commit may have happened. Looking is the only way to know.
            state = await self._popping.find_state(claim)
            metrics.AMBIGUOUS.labels(entered.verb.name, state.value).inc()
            if state is not FrameState.COMPLETED or completed is None:
                raise
        if wake is not None:
            life.is_told = True
            wake()
        return completed

    async def _move(self, connection: Connection, claim: Claim, completed: Completed) -> Callable[[], None] | None:
        """Move the token and acknowledge the frame if the engine shares the database; a refused move is sent later."""
        if self._engine is None:
            return None
        try:
            wake = await self._engine.complete_in(connection, claim.job_key, variables_of(completed))
        except EngineError as error:
            _log.info("not moved together", extra={"job_key": claim.job_key, "reason": str(error)})
            return None
        await self._frames.acknowledge_in(connection, {claim.job_key: "ok"})
        return wake
