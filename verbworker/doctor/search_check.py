"""The check of search: it must see our cases.

A cluster enforces the permission to read instances by leaving them out: without it a search answers with no items and
no error, and incidents and cancellations are missed in silence.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from verbworker.doctor.check_result import CheckResult, ok, warn
from verbworker.doctor.subject import Subject
from verbworker.engine.protocol import Searchable
from verbworker.errors import NotOffered
from verbworker.stores.checkup import Checkup

_CHECK: Final = "engine search"
_SAMPLE: Final = 10  # cases; one that is seen is enough
_EXPORTED_AFTER: Final = timedelta(minutes=1)  # searches were seen to lag by up to two seconds
_FIX: Final = (
    "give the client the permission READ_PROCESS_INSTANCE for these processes, and check that the cluster exports to"
    " its secondary storage"
)


async def see_cases(subject: Subject) -> Sequence[CheckResult]:
    """Check that the search finds cases that run; says nothing without a search or without a case."""
    engine = await subject.engine()
    if not isinstance(engine, Searchable):
        return []
    checkup = Checkup(await subject.database())
    keys = await checkup.running_instances(engine.engine_id, limit=_SAMPLE, older_than=_EXPORTED_AFTER)
    if not keys:
        return []
    try:
        seen = await engine.instance_states(keys)
    except NotOffered:
        return []  # the check of the APIs has it
    words = f"the search sees {len(seen)} of {len(keys)} running cases"
    if seen:
        return [ok(_CHECK, words)]
    return [warn(_CHECK, f"{words}: incidents and cancellations in the cluster are not found", _FIX)]
