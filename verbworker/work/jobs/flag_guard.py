"""Keep flags that were changed in the engine from deciding anything: what a job brings is compared with what we wrote.

The runtime records a flag in the transaction that stores the verdict which sets it, before the engine hears of it, so a
job brings the recorded value or an older one: a parallel branch may have written since the job was handed out, and a
broker that lost its last records goes on with older values. A value that the case had before is followed and told; any
other is an incident that names the flag.

Who brings flags, and who compares them:

- a job of a verb brings every flag of the workflow verbs that may call it, on each engine and transport, before its
  verb runs; a redelivery whose verdict is stored is not compared, because the stored verdict is sent again;
- the listener of a wait (and of a native user task) brings the text flags, before its timer is created: a timer never
  waits for a forged time. The timer of a boundary event is created with its activity, whose own job compares;
- the last listener brings every flag, so a change that only a gateway has read is found before the case can end;
- a job-based gate and the compensate task compare nothing: both are followed by a job that does. An undo sets flags
  that the engine gets after the last undo, so undos are not compared;
- a plain job has no flags of ours.

Flags are variables of the whole instance: they are set at the start, and models have no mappings that would shadow them
in a subprocess. Start variables are the first version; `incidents resolve --set` records a flag before it sets it; an
instance that the engine made again under another key brings values that the case had.
"""

import logging
from collections.abc import Iterable
from uuid import UUID

from verbworker.contract.flags import compare_flags, describe_foreign
from verbworker.contract.registry import Registry
from verbworker.errors import PayloadIntegrityError
from verbworker.job.frame import InstanceFacts
from verbworker.job.job import Job
from verbworker.stores.cases import payloads
from verbworker.stores.database import Connection, Database

_log = logging.getLogger(__name__)


class FlagGuard:
    """Compares the flags of jobs with the record."""

    def __init__(self, registry: Registry, database: Database) -> None:
        self._registry = registry
        self._database = database
        self._asked: dict[str, tuple[str, ...]] = {}

    async def check_verb(self, job: Job, instance: InstanceFacts, uid: UUID) -> str:
        """Compare the flags that a verb's job brings; return the names of those with an older value, or nothing."""
        asked = self._asked.get(job.type)
        if asked is None:
            asked = self._asked[job.type] = self._registry.flags_of(job.type)
        return await check_flags(self._database, job, instance, uid, asked)


async def check_flags(
    database: Database | Connection, job: Job, instance: InstanceFacts, uid: UUID, asked: Iterable[str]
) -> str:
    """Raise `PayloadIntegrityError` for a flag that was changed outside; return the names of those that are only older.

    No statement is run as long as every flag is as it was last written.
    """
    recorded = instance.flags
    if recorded is None:
        return ""
    drift = compare_flags(recorded, job.variables, asked)
    if drift is None:
        return ""
    foreign = list(drift.foreign)
    if drift.differing:
        foreign += await payloads.unknown_flags(database, uid, drift.differing)
    if foreign:
        words = "; ".join(describe_foreign(name, recorded, job.variables) for name in sorted(foreign))
        raise PayloadIntegrityError(words, code="FlagForeign")
    older = ", ".join(sorted(drift.differing))
    _log.warning("a job brings older flags", extra={"job_key": job.key, "verb": job.type, "flags": older})
    return older
