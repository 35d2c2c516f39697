"""Report entries that make no progress with nothing open in Postgres: jobs, backoffs and timers the engine lost."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.engine.known_faults import lost_remedy, overdue_remedy, stall_remedy
from verbworker.engine.protocol import Engine, SameDatabase
from verbworker.runbook.event import StallKind
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.cases.stalls import LastStep, Stalls, Standstill
from verbworker.stores.database import Database

_log = logging.getLogger(__name__)

# Each costs the engine one call and Postgres three statements; a round of fifty stays well under a second.
_BATCH = 50
# One pass reads every open entry; an entry that moves again is still listed for at most this long.
_SLOWEST_LOOK = 15.0
_GAUGES = {
    StallKind.JOB: metrics.STALLED,
    StallKind.BACKOFF: metrics.OVERDUE_BACKOFFS,
    StallKind.TIMER: metrics.OVERDUE_TIMERS,
    StallKind.MESSAGE: metrics.STALLED_MESSAGES,
}


class StallDetector:
    """Reports each stall once, and clears it when the entry moves again. Any number may run concurrently.

    It judges only while the engine's queues are certainly empty: `caught_up_for` returns for how many seconds every
    poll of this process was answered, and is 0 while jobs wait in the engine because all workers are busy.
    """

    def __init__(
        self,
        database: Database,
        engine: Engine,
        *,
        after: timedelta,
        gates_after: timedelta,
        caught_up_for: Callable[[], float],
    ) -> None:
        self._database = database
        self._engine = engine
        self._after = after
        self._gates_after = max(after, gates_after)
        self._caught_up_for = caught_up_for
        self._stalls = Stalls(database)
        self._instances = Instances(database)
        self._runbook = Runbook(database)
        every = min(_SLOWEST_LOOK, after.total_seconds() / 4)
        self.service = PollLoop(
            "stalls", self.note, every=every, chore=self.clear, chore_every=every, first_after=every
        )

    async def note(self) -> int:
        """Report one batch of stalls; return how many were reported."""
        if self._caught_up_for() < self._after.total_seconds():
            return 0
        found = await self._stalls.find(
            self._engine.engine_id, after=self._after, gates_after=self._gates_after, limit=_BATCH
        )
        version = (await self._engine.facts()).version if found else ""
        return sum([await self._name(still, version) for still in found])

    async def clear(self) -> None:
        """Clear stalls whose entry moves again, and count the rest."""
        await self._stalls.clear(self._engine.engine_id)
        for kind, number in (await self._stalls.counts(self._engine.engine_id)).items():
            _GAUGES[kind].set(number)

    async def _name(self, still: Standstill, version: str) -> bool:
        reason, remedy = await self._explain(still, version)
        async with self._database.transaction() as connection:
            seq = await self._stalls.note_in(connection, still, reason, remedy)
            if seq is None:
                return False
            if still.kind is StallKind.JOB and not isinstance(self._engine, SameDatabase):
                await self._stalls.resend_messages_in(connection, still.entry_id)
            detail = {"what": still.kind.value, "since": still.since.isoformat(), "reason": reason, "remedy": remedy}
            once = f"{still.kind.event.value}:{still.kind.value}:{still.place}:{seq}"
            await self._runbook.append_in(connection, still.entry_id, still.kind.event, once=once, detail=detail)
        fields = {"entry_id": str(still.entry_id), "kind": still.kind.value, "reason": reason, "remedy": remedy}
        _log.warning("entry is stalled", extra=fields)
        return True

    # ---- explanations -----------------------------------------------------------------------------------------------

    async def _explain(self, still: Standstill, version: str) -> tuple[str, str]:
        """Return what is known of a stall, and what an operator can do."""
        key = still.instance_key
        if key is None and still.engine_id:
            so_far = _so_far(still, await self._stalls.last_step(still.entry_id))
            words = f"{so_far}; {_name_engine(version)} lost the instance and gave its key to another instance"
            return words, lost_remedy(version)
        if key is None:
            words = f"the process that ran it has not reported since {_moment(still.since)}"
            return words, "start it again with the same request key: it then runs"
        if still.kind is StallKind.JOB:
            return await self._explain_job(still, key, version)
        if still.kind is StallKind.MESSAGE:
            words = (
                f"the message {still.what} was published by {_moment(still.since)}, and {_name_engine(version)} has not"
                " reported the end of its wait: most likely it handed the report out to a worker that died"
            )
            return words, stall_remedy(version, key)
        late = f"the retry of {still.what}" if still.kind is StallKind.BACKOFF else f"the timer at '{still.what}'"
        words = f"{late} was due at {_moment(still.since)}, and {_name_engine(version)} has not processed it"
        remedy = overdue_remedy(version, key)
        if still.kind is StallKind.BACKOFF and not isinstance(self._engine, SameDatabase):
            # A release restores the job's retries; over gRPC a person who knows the incident's key must resolve it.
            remedy = f"if a person released it, resolve its incident in the engine; else {remedy}"
        return words, remedy

    async def _explain_job(self, still: Standstill, key: int, version: str) -> tuple[str, str]:
        so_far = _so_far(still, await self._stalls.last_step(still.entry_id))
        if not await self._engine.alive(key):
            # The first of the two looks that the reconciler needs.
            if (carrier := await self._instances.of_entry(still.entry_id)) is not None:
                await self._instances.miss(carrier.instance_uid, key)
            words = f"{so_far}; {_name_engine(version)} has no instance {key} any more"
            return words, "wait for the reconciler, which ends the entry, or cancel it: verbworker runbook cancel"
        if isinstance(self._engine, SameDatabase):
            held = await self._stalls.in_engine(key)
            words = "; ".join(one.words for one in held) or "no job and no incident"
            remedy = (
                "resolve the incident" if any(one.is_incident for one in held) else "check that a worker serves the job"
            )
            return (
                f"{so_far}; in the engine, the instance {key} has {words}",
                f"{remedy}, or cancel it: verbworker runbook cancel",
            )
        words = (
            f"{so_far}; {_name_engine(version)} reports that the instance {key} is alive, and hands out no job of it:"
            " most likely it handed one out whose worker died, and lost its timeout"
        )
        return words, stall_remedy(version, key)


def _so_far(still: Standstill, last: LastStep | None) -> str:
    """Describe where an entry stopped."""
    if last is None:
        return f"no step was done since it started at {_moment(still.since)}"
    if last.error_code:
        return (
            f"{last.verb} ended with {last.error_code} at {_moment(last.at)}, which the model may catch nowhere;"
            " nothing came after it"
        )
    return f"{last.verb} was done at {_moment(last.at)}, and nothing came after it"


def _name_engine(version: str) -> str:
    return f"Zeebe {version}" if version[:1].isdigit() else f"the engine ({version})"


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
