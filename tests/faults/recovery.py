"""How long affected entries stood still: from each fault's end to their next event in the runbook."""

from collections import defaultdict
from collections.abc import Sequence

from tests.faults.nemesis import Made
from tests.faults.world import World

_EVENTS = "SELECT entry_id, extract(epoch FROM at)::float8 AS at FROM verbworker.runbook_event ORDER BY at"


async def recovery_times(made: Sequence[Made], world: World) -> list[float]:
    """Seconds for each fault and entry it hit; entries that never went on have none and are counted as stuck."""
    events: dict[str, list[float]] = defaultdict(list)
    for row in await world.query(_EVENTS):
        events[str(row["entry_id"])].append(row["at"])
    times = []
    for one in made:
        for entry_id in one.affected:
            after = next((at for at in events[entry_id] if at > one.began), None)
            if after is not None:
                times.append(max(0.0, after - one.since))
    return sorted(times)


def percentile(times: Sequence[float], share: float) -> float:
    """The value below which a share of the times lies; 0 without times."""
    return times[min(len(times) - 1, int(share * len(times)))] if times else 0.0
