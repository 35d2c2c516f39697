"""The probes of a worker: when it is alive, and when it is ready."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from verbworker.background.poll_loop import RunsServices, Service
from verbworker.background.service_health import Limited
from verbworker.engine.protocol import Engine
from verbworker.errors import VerbworkerError
from verbworker.stores import durability
from verbworker.stores.database import Database
from verbworker.work.feeds.worker import Worker

# The loop ticks four times a second; after ten seconds without one, only a restart helps.
_STALE_TICK = 10.0
# Shorter than the health server's own limit, so that a slow check is named in its answer.
_LONGEST_ANSWER_S = 3.0
# One or two failed tries of a service are no reason to refuse traffic.
_LONGEST_TROUBLE = 5.0


class WorkerProbes:
    """Checks one worker. Liveness covers the event loop alone: a lost database is no reason to restart a process."""

    def __init__(self, worker: Worker, database: Database, engine: Engine, *, poll_wait: timedelta) -> None:
        self._worker = worker
        self._database = database
        self._engine = engine
        # Three polls, plus the time that a failing poll may take until its deadline.
        self._stale_poll = poll_wait.total_seconds() * 3 + 10
        self._opened_at = asyncio.get_running_loop().time()

    @property
    def services(self) -> list[Service]:
        """Return every service of this process: the worker's and the engine's own."""
        engine = self._engine.services if isinstance(self._engine, RunsServices) else ()
        return [*self._worker.services, *engine]

    def live(self) -> Mapping[str, str | None]:
        """Check that the event loop runs."""
        age = asyncio.get_running_loop().time() - max(self._worker.ticked_at, self._opened_at)
        return {"loop": f"last tick {age:.0f} s ago" if age > _STALE_TICK else None}

    async def ready(self) -> Mapping[str, str | Limited | None]:
        """Check that jobs can be worked on: database and gateway answer, services and polls are well, no drain.

        A feed loop that hits a bug keeps running and is reported here until a pass succeeds. That is no reason to
        restart the process: the other feeds work.
        """
        async with asyncio.TaskGroup() as questions:
            database = questions.create_task(_answer(lambda: durability.refused_writes(self._database)))
            gateway = questions.create_task(_answer(self._engine.facts))
        troubles = [service.health.trouble(longer_than=_LONGEST_TROUBLE) for service in self.services]
        limits = [words for service in self.services for words in service.health.describe_limits()]
        is_stale = self._worker.seconds_since_poll() > self._stale_poll
        return {
            "database": database.result(),
            "gateway": gateway.result(),
            "services": "; ".join(trouble for trouble in troubles if trouble) or None,
            "limits": Limited("; ".join(limits)) if limits else None,
            "polls": "no answer to a poll lately" if is_stale else None,
            "feeds": "; ".join(self._worker.troubles()) or None,
            "draining": "no more jobs are taken" if self._worker.is_draining else None,
        }


class WaitingProbes:
    """Checks a worker that waits for its database before it begins."""

    def live(self) -> Mapping[str, str | None]:
        """Return that it is alive."""
        return {"loop": None}

    async def ready(self) -> Mapping[str, str | None]:
        """Return that it is not ready."""
        return {"database": "it does not answer; the worker begins when it does"}


async def _answer(question: Callable[[], Awaitable[object]]) -> str | None:
    """Return the problem that a probe reports, or why it did not answer; None if all is well."""
    try:
        async with asyncio.timeout(_LONGEST_ANSWER_S):
            answer = await question()
    except TimeoutError:
        return f"no answer within {_LONGEST_ANSWER_S:g} s"
    except VerbworkerError as error:
        # The error type alone: a prober need not know addresses.
        return type(error).__name__
    return answer if isinstance(answer, str) else None
