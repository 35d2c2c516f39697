"""The reconciler by search: brings into the runbook what only the engine knows.

Incidents that the engine raised, instances that were terminated there, user tasks without a gate, and jobs that the
engine keeps locked. A search may lag: it confirms what it contains and denies nothing, so nothing is closed before a
second look. An engine without a search is left alone; `verbworker doctor` says so.

One worker of many searches per period: a search costs the engine far more than a statement costs Postgres.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from verbworker.background.poll_loop import PollLoop
from verbworker.engine.protocol import (
    Engine,
    EngineIncident,
    EngineJob,
    EngineUserTask,
    InstanceState,
    Searchable,
)
from verbworker.errors import InstanceSuspended, JobGone, JobNotActive, LeaseLost, NotOffered
from verbworker.stores.cases.incidents import Incidents
from verbworker.stores.cases.suspensions import Suspensions
from verbworker.stores.database import Database
from verbworker.stores.upkeep_turns import UpkeepTurns
from verbworker.work.jobs.lease_tokens import redeliver
from verbworker.work.upkeep.reconciler import Reconciler

_log = logging.getLogger(__name__)

_BATCH = 1000  # recorded incidents, or stalled instances, per round
_CONCURRENT_CALLS = 8  # of the database and the engine; more would only queue there
_BETWEEN_LOOKS = timedelta(seconds=5)  # searches were seen to lag by up to two seconds
_OVERLAP = timedelta(minutes=1)  # a termination may be exported this late, or by another clock
_ASKS_AGAIN = timedelta(minutes=10)  # a cluster without search is upgraded or given storage now and then
_BETWEEN_NUDGES = timedelta(minutes=1)  # a job whose worker is missing is not failed over and over
_DECIDE = 2  # searches that everything with a search offers: if both are refused, there is none
_ASKED_PER_PERIOD = 4  # how often a worker asks for the turn, so that a period is not much longer than it should be

_ENDED = (InstanceState.COMPLETED, InstanceState.TERMINATED)
_ANY = ""  # the name of the limit if there is no search at all
_NO_SEARCH = "the engine offers no search"

OpenGate = Callable[[EngineUserTask], Awaitable[bool]]
"""Opens the gate of a native user task; returns whether it is new."""
Part = Callable[[], Awaitable[int | None]]
"""One comparison: returns how many incidents it recorded or settled, None if it had no reason to search."""


class SearchReconciler:
    """Compares the runbook with the engine's own search. With `turns`, its service does so when it has the turn.

    Any number may run concurrently, without turns too: each comparison may be repeated.
    """

    def __init__(
        self,
        database: Database,
        engine: Engine,
        reconciler: Reconciler,
        *,
        open_gate: OpenGate | None = None,
        turns: UpkeepTurns | None = None,
        every: float = 10.0,
        between_looks: timedelta = _BETWEEN_LOOKS,
    ) -> None:
        self._engine = engine
        self._reconciler = reconciler
        self._open_gate = open_gate
        self._between_looks = between_looks
        self._turns = turns
        self._every = timedelta(seconds=every)
        self._incidents = Incidents(database, engine_id=engine.engine_id)
        self._suspensions = Suspensions(database, engine_id=engine.engine_id)
        self._looked_until = datetime.now(UTC) - _OVERLAP
        self._asks_again_at = datetime.min.replace(tzinfo=UTC)
        often = every if turns is None else every / _ASKED_PER_PERIOD
        self.service = PollLoop("search", self.look_in_turn, every=often)

    async def look_in_turn(self) -> int:
        """Compare if it is this worker's turn; return 0 then, so that the next look is in the next period."""
        if self._turns is None:
            return await self.look()
        turn = await self._turns.take()
        if turn is None:
            return 0
        self._looked_until = turn.looked_until or self._looked_until
        try:
            await self.look()
        finally:
            # Also when the engine is away: the next worker would not find it either.
            pause = max(self._every, self._asks_again_at - datetime.now(UTC))
            await self._turns.finish(turn, next_after=pause, looked_until=self._looked_until)
        return 0

    async def look(self) -> int:
        """Compare once; return how many incidents were recorded or settled.

        A version or a permission may lack one of the searches: the others go on without it.
        """
        if datetime.now(UTC) < self._asks_again_at:
            return 0
        changed, parts = 0, self._parts()
        answers: dict[str, NotOffered | None] = {}  # of the searches that were asked
        for name, part in parts.items():
            try:
                found = await part()
            except NotOffered as error:
                answers[name] = error
            else:
                changed += found or 0
                answers |= {} if found is None else {name: None}
            if len(answers) == min(_DECIDE, len(parts)) and None not in answers.values():
                self._note_no_search(str(answers[name]))
                return 0
        self._note_answers(answers)
        return changed

    def _parts(self) -> dict[str, Part]:
        engine = self._engine
        if not isinstance(engine, Searchable):
            return {"incidents": self._compare_incidents}
        return {
            "incidents": self._compare_incidents,
            "terminations": partial(self._check_terminations, engine),
            "user tasks": partial(self._open_gates, engine),
            "stalled cases": partial(self._help_stalls, engine),
        }

    def _note_no_search(self, reason: str) -> None:
        limits = self.service.health.limits
        if _ANY not in limits:
            _log.info(_NO_SEARCH, extra={"reason": reason})
        limits.clear()
        limits[_ANY] = _NO_SEARCH
        self._asks_again_at = datetime.now(UTC) + _ASKS_AGAIN

    def _note_answers(self, answers: Mapping[str, NotOffered | None]) -> None:
        """Log each search that is refused, and each that is taken again, once."""
        limits = self.service.health.limits
        limits.pop(_ANY, None)
        for name, error in answers.items():
            if error is not None and name not in limits:
                limits[name] = "refused by the engine"
                said = {"search": name, "reason": str(error)}
                _log.warning("a search is refused; what it would find is missed", extra=said)
            elif error is None and limits.pop(name, None) is not None:
                _log.info("a search is taken again", extra={"search": name})

    # ---- incidents ---------------------------------------------------------------------------------------------------

    async def _compare_incidents(self) -> int:
        found = await self._engine.incidents()
        unknown = await self._incidents.find_unknown(found)
        recorded = await self.service.for_each(unknown, _CONCURRENT_CALLS, self._record)
        settled = await self._settle_missing({incident.incident_key for incident in found})
        return sum(recorded) + settled

    async def _record(self, incident: EngineIncident) -> bool:
        is_new = await self._incidents.record(incident)
        if is_new:
            fields = {
                "incident_key": incident.incident_key,
                "instance_key": incident.instance_key,
                "kind": incident.kind,
            }
            _log.warning("the engine raised an incident", extra={**fields, "element": incident.element_id})
        return is_new

    async def _settle_missing(self, seen: set[int]) -> int:
        """Settle recorded incidents that two looks, some time apart, did not find."""
        absent = await self._incidents.absent(seen, missed_for=self._between_looks, limit=_BATCH)
        if not absent:
            return 0
        # Asked for by name: a search over everything has a limit.
        keys = sorted({incident.instance_key for incident in absent})
        present = {incident.incident_key for incident in await self._engine.incidents(keys)}
        missing = [incident for incident in absent if incident.incident_key not in present]
        await self._incidents.miss([incident.incident_key for incident in missing if not incident.is_missed])
        sure = [incident.incident_key for incident in missing if incident.is_missed]
        return sum(await self.service.for_each(sure, _CONCURRENT_CALLS, self._incidents.settle))

    # ---- instances, gates and jobs -----------------------------------------------------------------------------------

    async def _check_terminations(self, engine: Searchable) -> int:
        """Have instances checked by a command that were terminated since the last look; the reconciler ends them."""
        now = datetime.now(UTC)
        keys = await engine.terminations(self._looked_until - _OVERLAP)
        await self._check_ends(keys)
        self._looked_until = now
        return 0

    async def _check_ends(self, instance_keys: Sequence[int]) -> None:
        running = await self._incidents.find_running(instance_keys) if instance_keys else {}
        await self.service.for_each(running.values(), _CONCURRENT_CALLS, self._reconciler.check)

    async def _open_gates(self, engine: Searchable) -> int | None:
        if self._open_gate is None:
            return None
        tasks = await engine.user_tasks()
        lost = await self._incidents.without_gate(tasks) if tasks else []
        await self.service.for_each(lost, _CONCURRENT_CALLS, self._open_gate)
        return 0

    async def _help_stalls(self, engine: Searchable) -> int | None:
        """Have the engine hand out jobs of stalled cases that it keeps locked although their time is over.

        A broker that lost a job's timeout never does so by itself. `FailJob` with unchanged retries is what works. An
        instance that ended without a report to us, which leaves its case stalled too, is checked by a command.
        """
        keys = await self._incidents.claim_stalls(_BATCH, between=_BETWEEN_NUDGES)
        if not keys:
            return None
        jobs = await engine.open_jobs(keys)
        now = datetime.now(UTC)
        late = [job for job in jobs if job.deadline is None or job.deadline < now]
        await self.service.for_each(late, _CONCURRENT_CALLS, self._nudge)
        states = await engine.instance_states(keys)
        await self._check_ends([key for key, state in states.items() if state in _ENDED])
        return 0

    async def _nudge(self, job: EngineJob) -> None:
        fields = {"job_key": job.job_key, "instance_key": job.instance_key}
        try:
            await self._engine.fail(job.job_key, retries=job.retries, message="handed out again: no worker has it")
        except InstanceSuspended:
            await self._suspensions.park(job.job_key, job.instance_key)
            return
        except LeaseLost:
            # A failure needs the token of the delivery that holds the lease; the shortest timeout needs none.
            with suppress(JobGone):
                await redeliver(self._engine, job.job_key)
        except (JobGone, JobNotActive) as error:
            _log.debug("left undone", extra={**fields, "reason": str(error)})
            return
        _log.warning("a job that stayed locked is handed out again", extra=fields)
