"""Resolutions: a person lets an incident continue. The runbook records who and why, then the engine is told."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from uuid import UUID, uuid4

from verblint.contracts.contract import Flag
from verbworker.engine.protocol import Engine, EngineIncident, SameDatabase
from verbworker.errors import EngineError, EngineUnavailable, InvocationInvalid, JobGone
from verbworker.job.frame import FrameState
from verbworker.runbook.event import Kind
from verbworker.stores.cases import payloads
from verbworker.stores.cases.incidents import Incidents
from verbworker.stores.cases.overview import Trouble
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.stores.jobs.compensations import UNDO, Compensations
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories
from verbworker.work.upkeep.releases import Release, ReleaseAnswer, Releases, insist

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_RESERVED = re.compile(r"vw_|corr_|domain_payload")  # the runtime's own
_FLAG = re.compile(rb"\borch_[A-Za-z0-9_]+")

_WATCH_S: Final = 3.0  # a worker that has nothing else to do runs a listener within a tenth of that
_LOOK_EVERY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Resolution:
    """A person's request: who, why, the tries from now on, and whether external systems may see another job.

    `flags` are set before the engine tries again, so that a gateway finds a way.
    """

    by: str
    reason: str
    retries: int = 3
    as_new: bool = False
    flags: Mapping[str, object] = field(default_factory=dict)


class Resolutions:
    """Resolves incidents of one engine: of a held frame, of a job without one, or of an element without a job."""

    def __init__(self, database: Database, engine: Engine, *, owner: UUID) -> None:
        self._database = database
        self._engine = engine
        self._owner = owner
        self._runbook = Runbook(database)
        self._incidents = Incidents(database, engine_id=engine.engine_id)

    async def resolve(self, trouble: Trouble, wanted: Resolution) -> ReleaseAnswer:
        """Resolve an incident. A repeated call repeats only what the engine has not received.

        Raises `InvocationInvalid` for flags that the model does not read, and values that the contract does not have.
        """
        cluster = trouble.engine_id.removesuffix(UNDO)
        if cluster != self._engine.engine_id:
            words = f"the incident belongs to the engine {cluster}, and this is {self._engine.engine_id}"
            return ReleaseAnswer(False, words)
        is_held = trouble.state == FrameState.INCIDENT
        if wanted.as_new and not is_held:
            return ReleaseAnswer(False, "only a held verb can run as new, and this incident holds none")
        await self._require_flags(trouble, wanted.flags)
        key = await self._key_of(trouble)
        await self._audit(trouble, wanted, key)
        if wanted.flags and trouble.instance_key is not None:
            await payloads.set_flags(self._database, cluster, trouble.instance_key, wanted.flags)
            try:
                await insist(partial(self._engine.set_flags, trouble.instance_key, wanted.flags))
            except EngineUnavailable as error:
                words = f"the engine was not reached: {error}; try again: nothing was resolved"
                return ReleaseAnswer(False, words)
            except EngineError as error:
                return ReleaseAnswer(False, f"the engine does not take the flags: {error}; nothing was resolved")
        if is_held and trouble.job_key is not None:
            answer = await self._release_frame(trouble, trouble.job_key, wanted, key)
        else:
            answer = await self._tell_engine(trouble, wanted, key)
        if key is not None:
            # What the engine did not get is shown again, once it is seen there again.
            await (self._incidents.settle(key) if answer.done else self._incidents.forget(key))
        return answer

    async def key_of_job(self, job_key: int, instance_key: int | None) -> int | None:
        """Return the key of a job's incident: as recorded, or as the engine finds it now; None if it cannot."""
        key = await self._incidents.key_of(job_key)
        return key if key is not None else await self._search(job_key, instance_key)

    async def _key_of(self, trouble: Trouble) -> int | None:
        if trouble.incident_key is not None or trouble.job_key is None:
            return trouble.incident_key
        job_key = trouble.job_key
        if trouble.engine_id.endswith(UNDO):
            job_key = await self._records.job_of(job_key) or job_key
        return await self._search(job_key, trouble.instance_key)

    async def _search(self, job_key: int, instance_key: int | None) -> int | None:
        if instance_key is None:
            return None
        try:
            found = await insist(partial(self._engine.incidents, [instance_key]))
        except EngineError:
            return None  # no search, or none just now: the job gets its retries all the same
        return next((incident.incident_key for incident in found if incident.job_key == job_key), None)

    async def _audit(self, trouble: Trouble, wanted: Resolution, key: int | None) -> None:
        if trouble.is_plain and trouble.incident_id is not None:
            await self._incidents.request_plain(trouble.incident_id, by=wanted.by, reason=wanted.reason)
        if trouble.entry_id is None or trouble.incident_id is None:
            return  # a job of no entry: its own history has the release
        request = {"by": wanted.by, "reason": wanted.reason, "retries": wanted.retries, "element": trouble.element_id}
        more = {"verb": trouble.verb, "job_key": trouble.job_key, "incident_key": key, "as_new": wanted.as_new}
        flags = {"flags": dict(wanted.flags)} if wanted.flags else {}
        once, detail = f"resolve:{uuid4()}", {**request, **more, **flags}
        await self._runbook.append(trouble.entry_id, Kind.RESOLVE_REQUESTED, once=once, detail=detail)

    async def _release_frame(
        self, trouble: Trouble, job_key: int, wanted: Resolution, key: int | None
    ) -> ReleaseAnswer:
        frames = Frames(self._database, engine_id=trouble.engine_id, owner=self._owner)
        histories = Histories(self._database, engine_id=trouble.engine_id)
        records = self._records if trouble.engine_id.endswith(UNDO) else None
        release = Release(job_key, wanted.by, wanted.reason, wanted.retries, wanted.as_new, key)
        return await Releases(frames, histories, self._engine, records=records).release(release)

    async def _tell_engine(self, trouble: Trouble, wanted: Resolution, key: int | None) -> ReleaseAnswer:
        try:
            if trouble.job_key is not None:
                await insist(partial(self._engine.release, trouble.job_key, retries=wanted.retries, incident_key=key))
            elif key is not None:
                await insist(partial(self._engine.resolve_incident, key))
        except JobGone:
            return ReleaseAnswer(True, "the engine had resolved it before")
        except EngineUnavailable as error:
            return ReleaseAnswer(False, f"the engine was not reached: {error}; try again")
        except EngineError as error:
            return ReleaseAnswer(False, f"the engine does not accept it: {error}; fix that and try again")
        if key is None and not isinstance(self._engine, SameDatabase):
            words = f"the job has {wanted.retries} retries, but its incident is not known: resolve it in the engine"
            return ReleaseAnswer(True, words)
        again = await self._find_again(trouble)
        if again is not None:
            return ReleaseAnswer(False, f"it tried again and stopped at {again.element_id} once more: {again.message}")
        return ReleaseAnswer(True, "the incident is resolved; the case tries again")

    async def _find_again(self, trouble: Trouble) -> EngineIncident | None:
        """Return the incident at which an element without a job stopped again at once, where that can be known.

        A worker may have a listener of the element to run before: it is looked at until it waits, has gone, or a little
        time is over.
        """
        if trouble.job_key is not None or trouble.instance_key is None or not isinstance(self._engine, SameDatabase):
            return None
        loop = asyncio.get_running_loop()
        over = loop.time() + _WATCH_S
        while True:
            found = await self._engine.incidents([trouble.instance_key])
            again = next((one for one in found if one.element_id == trouble.element_id), None)
            standing = [
                one for one in await self._engine.waits(trouble.instance_key) if one.element_id == trouble.element_id
            ]
            if again is not None or not standing or any(one.message_name for one in standing) or loop.time() >= over:
                return again
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _require_flags(self, trouble: Trouble, flags: Mapping[str, object]) -> None:
        """Raise `InvocationInvalid` for flags or values that the contract does not have, or the model does not read.

        A plain process has its own variables.
        """
        model = None if trouble.entry_id is None or not flags else await self._incidents.model_of(trouble.entry_id)
        for name, value in flags.items():
            if _RESERVED.match(name) or not _NAME.fullmatch(name) or not (trouble.is_plain or name.startswith("orch_")):
                raise InvocationInvalid(f"{name[:60]} is not a flag; flags are called orch_...")
            if not isinstance(value, str | int):
                raise InvocationInvalid(f"the flag {name} must be a text, a whole number, true or false")
            if model is not None and model.flags is not None:
                _require_flag(model.verb, model.flags, name, value)
            # A flag of the case that no gateway reads may have been changed in the engine all the same.
            if model is not None and name in model.recorded:
                continue
            # Enough to find a mistyped name: a model names each flag that it reads.
            read = sorted({one.decode() for one in _FLAG.findall(model.woven)}) if model is not None else [name]
            if name not in read:
                known = f"it reads {', '.join(read)}" if read else "it reads none"
                raise InvocationInvalid(f"the deployed model reads no flag {name}; {known}")

    @property
    def _records(self) -> Compensations:
        return Compensations(self._database, engine_id=self._engine.engine_id)


def _require_flag(verb: str, flags: Mapping[str, Flag], name: str, value: object) -> None:
    """Raise `InvocationInvalid` unless the contract of a workflow verb has this flag with this value."""
    flag = flags.get(name)
    if flag is None:
        known = f"it declares {', '.join(sorted(flags))}" if flags else "it declares none"
        raise InvocationInvalid(f"the contract of {verb} declares no flag {name}; {known}")
    misfit = flag.find_misfit(value)
    if misfit is not None:
        words = f"must be one of {', '.join(flag.values)}" if flag.values else misfit.message
        raise InvocationInvalid(f"the flag {name} {words}")
