"""Check of the record's seals: signed, going on from the last one, and written in time."""

from collections.abc import Sequence
from datetime import timedelta

from verbworker.doctor.check_result import CheckResult, ok, warn
from verbworker.doctor.subject import Subject
from verbworker.stores.cases.seals import Seals
from verbworker.stores.checkup import Checkup

_NAME = "seals"
# Workers seal once a second, and another takes over after ten.
_LATE = timedelta(minutes=1)


async def look(subject: Subject) -> Sequence[CheckResult]:
    """Report seals that are not signed, that no worker may go on from, or that are not written."""
    database, ring = await subject.database(), subject.settings.seal_ring()
    seals = Seals(database, ring)
    last, waiting = await seals.last(), await seals.find_waiting()
    found = []
    if ring is None:
        found.append(
            warn(
                _NAME,
                "the record's seals are not signed, so an owner of the database can write them anew",
                "set VERBWORKER_SEAL_KEYS",
            )
        )
    if waiting is not None and await Checkup(database).clock() - waiting > _LATE:
        words = f"entries are not sealed since {waiting:%Y-%m-%d %H:%M:%S} UTC"
        found.append(warn(_NAME, words, "check that a worker runs, and its log for 'the record is not sealed'"))
    numbers = f"{len(last)} tenant(s), {sum(seal.number for seal in last)} seal(s)"
    return found or [ok(_NAME, f"{numbers}, {ring.active if ring else 'no key'} signs")]
