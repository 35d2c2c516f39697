"""Checks of what is waiting: for people, for the engine, and for too long."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from verbworker.doctor.check_result import CheckResult, ok, warn
from verbworker.doctor.subject import Subject
from verbworker.runbook.event import StallKind
from verbworker.stores.cases.stalls import Stalls
from verbworker.stores.checkup import Checkup, Queue
from verbworker.stores.tenants.tenant_use import TenantUse

_A_DAY = timedelta(days=1)  # what a daily round of an operator should have found
_A_MINUTE = timedelta(minutes=1)  # a worker handles it in seconds; a restart of one takes less
_SOME_MINUTES = timedelta(minutes=5)  # longer than the retries after a short outage
_NO_GRACE = timedelta(0)  # these never resolve themselves: a person must act
_LONGEST_WORD = 200  # characters of an error; the whole text is in the log
_WORKERS = "workers"
_QUOTAS = "quotas"
_NEARLY = 0.8  # of a quota; what is left is the time to act
SEEN_WITHIN = timedelta(minutes=2)
"""A worker notes twice a minute that it runs."""


@dataclass(frozen=True, slots=True)
class BacklogPlace:
    """A queue to check: what waits in it, the usual waiting time, and what to do when it takes longer."""

    queue: Queue
    words: str
    usual: timedelta
    fix: str
    refused: str | None = None
    """What to do about an answer of the engine; then one is reported at once."""


QUEUES: Mapping[str, BacklogPlace] = {
    "gates": BacklogPlace("gates", "gate(s) wait for a person", _A_DAY, "list them: verbworker gates list"),
    "held frames": BacklogPlace(
        "held", "job(s) are held for a person", _NO_GRACE, "find out why: verbworker frames list, then frames explain"
    ),
    "endless runs": BacklogPlace(
        "overtime",
        "verb(s) still run past their time limit",
        _NO_GRACE,
        "restart the worker that frames explain names, and give the verb's own calls a timeout",
    ),
    "dispatches": BacklogPlace(
        "dispatches", "start(s) wait for the engine", _A_MINUTE, "see the lines workers, engine and models"
    ),
    "decisions": BacklogPlace(
        "decisions",
        "decision(s) of people wait for the engine",
        _A_MINUTE,
        "see the lines workers and engine",
        "do what the engine's answer says; after a 403, give the workers' client the permission to complete user tasks",
    ),
    "messages": BacklogPlace(
        "messages",
        "message(s) wait to be delivered",
        _SOME_MINUTES,  # one that came early waits for its case
        "see the lines workers and engine; a message whose key no case has becomes a dead letter in time",
    ),
    "dead letters": BacklogPlace(
        "letters", "message(s) could not be delivered", _NO_GRACE, "redeliver or discard: verbworker dead-letters list"
    ),
}


STALLS: Mapping[str, tuple[StallKind, str]] = {
    "stalled": (StallKind.JOB, "case(s) make no progress"),
    "overdue backoffs": (StallKind.BACKOFF, "failed job(s) were not delivered again in time"),
    "overdue timers": (StallKind.TIMER, "timer(s) did not fire in time"),
    "stalled messages": (StallKind.MESSAGE, "wait(s) did not end though their message came"),
}


async def check_workers(subject: Subject) -> Sequence[CheckResult]:
    """Check that a worker serves the engine, unless no case is open there."""
    engine_id = subject.settings.cluster()
    counted = await Checkup(await subject.database()).workers(engine_id, within=SEEN_WITHIN)
    if counted.alive:
        return [ok(_WORKERS, f"{counted.alive} worker(s) run, {counted.open_cases} case(s) are open")]
    before = ""
    if counted.last_seen is not None:
        before = f"; the last was {counted.last_name}, {_format_duration(counted.last_seen)} ago"
    if not counted.open_cases:
        return [ok(_WORKERS, f"no worker runs, and no case is open{before}")]
    found = f"no worker runs for {engine_id}, but {counted.open_cases} case(s) are open{before}"
    return [warn(_WORKERS, found, f"start one: verbworker worker --app {subject.app or 'module:attribute'}")]


async def check_queue(name: str, subject: Subject) -> Sequence[CheckResult]:
    """Check how long things wait in one queue."""
    place, checkup = QUEUES[name], Checkup(await subject.database())
    waiting = await checkup.waiting(place.queue, subject.settings.cluster(), longer_than=place.usual)
    found = f"{waiting.number} {place.words}"
    if waiting.longest is not None:
        found += f", the longest for {_format_duration(waiting.longest)}"
    is_refused = place.refused is not None and bool(waiting.word)
    if not waiting.late and not is_refused:
        return [ok(name, found)]
    if place.usual and waiting.late:
        found = f"{found}; {waiting.late} for more than {_format_duration(place.usual)}"
    word = f" ({' '.join(waiting.word.split())[:_LONGEST_WORD]})" if waiting.word else ""
    return [warn(name, f"{found}{word}", place.refused if is_refused and place.refused else place.fix)]


async def check_stalls(name: str, subject: Subject) -> Sequence[CheckResult]:
    """Check for cases without progress that workers reported, for one reason."""
    kind, words = STALLS[name]
    worst = (await Stalls(await subject.database()).worst(subject.settings.cluster())).get(kind)
    if worst is None:
        return [ok(name, f"0 {words}")]
    found = f"{worst.number} {words}, the longest for {_format_duration(worst.longest)} (entry {worst.entry_id})"
    return [warn(name, f"{found}: {' '.join(worst.reason.split())}", worst.remedy)]


async def check_quotas(subject: Subject) -> Sequence[CheckResult]:
    """Check for tenants that have nearly used up a quota."""
    shares = await TenantUse(await subject.database()).shares(subject.settings.quotas())
    full = [one for one in shares if one.share >= _NEARLY]
    if not full:
        return [ok(_QUOTAS, "no tenant has used more than 80 % of a quota")]
    worst = full[0]
    found = f"{len(full)} quota(s) of tenants are used by 80 % or more: {worst.tenant_id} has {worst.used:,} of"
    found = f"{found} {worst.limit:,} ({worst.quota})"
    return [warn(_QUOTAS, found, "see all: verbworker db quotas; a tenant's own: VERBWORKER_TENANT_QUOTAS")]


def _format_duration(duration: timedelta) -> str:
    seconds = int(duration.total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds} s"
