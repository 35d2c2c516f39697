"""The check of job leases: all workers of a cluster have them on, or none, and the cluster offers them."""

from collections.abc import Sequence
from typing import Final

from verbworker.doctor.backlog import SEEN_WITHIN
from verbworker.doctor.check_result import CheckResult, ok, warn
from verbworker.doctor.subject import Subject
from verbworker.engine.known_faults import version_number
from verbworker.stores.checkup import Checkup

_LEASES: Final = "leases"
_LEASES_SINCE: Final = (8, 10, 0)  # engines before it know no lease token, so there is nothing to check


async def look(subject: Subject) -> Sequence[CheckResult]:
    """Check that all workers of a cluster take jobs under leases, or none, and that the cluster can lease."""
    if subject.settings.engine == "embedded":
        return [ok(_LEASES, "not needed: a frame and its token change in one commit")]
    is_on = subject.settings.engine_leases == "on"
    counted = await Checkup(await subject.database()).count_leases(subject.settings.cluster(), within=SEEN_WITHIN)
    if counted.plain and (counted.leasing or is_on):
        leasing = f"{counted.leasing_name} does" if counted.leasing else "these settings say so"
        found = (
            f"{counted.plain} worker(s) take jobs without leases ({counted.plain_name}), and {leasing};"
            " a job that was leased once is never given to them"
        )
        return [warn(_LEASES, found, "set VERBWORKER_ENGINE_LEASES to the same for all workers of this cluster")]
    if counted.leasing and not is_on:
        found = f"{counted.leasing} worker(s) take jobs under leases, and these settings have them off"
        return [warn(_LEASES, found, "set VERBWORKER_ENGINE_LEASES=on here too")]
    if not is_on:
        return [ok(_LEASES, "off: a late worker is stopped by the frames alone")]
    version = (await (await subject.engine()).facts()).version
    number = version_number(version)
    if number is not None and number < _LEASES_SINCE:
        return [warn(_LEASES, f"on, but Zeebe {version} has none: jobs are taken without", "upgrade to 8.10 or newer")]
    return [ok(_LEASES, f"on: the engine refuses late workers; {counted.leasing} worker(s) run with them")]
