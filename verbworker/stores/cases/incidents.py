"""Incidents of the engine, as the runbook records them."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from verblint.contracts.contract import Flag, FlagType
from verbworker.engine.protocol import EngineIncident, EngineUserTask
from verbworker.stores.database import Database
from verbworker.stores.rows import columns
from verbworker.stores.sql import query


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """A recorded incident that is not settled; `is_missed` if an earlier look did not find it in the engine."""

    incident_key: int
    instance_key: int
    is_missed: bool


@dataclass(frozen=True, slots=True)
class RunningModel:
    """The deployed model of an entry, its workflow verb, and the flags of the contract; None if not recorded.

    `recorded` are the flags that the case has.
    """

    verb: str
    woven: bytes
    flags: Mapping[str, Flag] | None
    recorded: tuple[str, ...] = ()


class Incidents:
    """The incidents of one engine."""

    def __init__(self, database: Database, *, engine_id: str) -> None:
        self._database = database
        self._engine_id = engine_id

    async def find_unknown(self, found: Sequence[EngineIncident]) -> list[EngineIncident]:
        """Return those of open entries and plain processes that are not recorded, or were missed before."""
        keys = [(one.incident_key, one.instance_key, one.definition_key, one.job_key) for one in found]
        rows = await self._database.fetch(query("incidents", "unknown"), self._engine_id, *columns(keys, 4))
        wanted = {row["incident_key"] for row in rows}
        return [one for one in found if one.incident_key in wanted]

    async def record(self, incident: EngineIncident) -> bool:
        """Record an incident, in its entry or as one of a plain process.

        False when it is known, was resolved, or belongs to a held frame, or to neither.
        """
        row = await self._database.fetchrow(
            query("incidents", "raise"),
            self._engine_id,
            incident.instance_key,
            incident.element_id,
            incident.element_instance_key,
            incident.job_key,
            incident.incident_key,
            incident.kind,
            incident.message,
            incident.definition_key,
            incident.process_id,
            incident.raised_at,
        )
        return row is not None and bool(row["is_new"])

    async def settle(self, incident_key: int) -> bool:
        """Record that the engine has an incident no more; False when that is known, or its frame is still held."""
        row = await self._database.fetchrow(query("incidents", "settle"), self._engine_id, incident_key)
        return row is not None and bool(row["is_settled"])

    async def model_of(self, entry_id: UUID) -> RunningModel | None:
        """Return the deployed model of an entry; None if it is not recorded."""
        row = await self._database.fetchrow(query("incidents", "model_of"), entry_id)
        if row is None:
            return None
        flags = None if row["flags"] is None else _flags(json.loads(row["flags"]))
        return RunningModel(row["verb"], row["woven"], flags, tuple(row["recorded"]))

    async def request_plain(self, incident_id: UUID, *, by: str, reason: str) -> None:
        """Record who resolves an incident of a plain process, and why."""
        await self._database.execute(query("incidents", "resolve_plain"), incident_id, by, reason)

    async def forget(self, incident_key: int) -> None:
        """Forget that an incident was resolved, so that it is recorded again if the engine still has it."""
        await self._database.execute(query("incidents", "forget"), self._engine_id, incident_key)

    async def absent(self, seen: Collection[int], *, missed_for: timedelta, limit: int) -> list[OpenIncident]:
        """Return the recorded incidents that are not settled and that a search did not find, oldest first."""
        rows = await self._database.fetch(query("incidents", "absent"), self._engine_id, missed_for, limit, list(seen))
        return [OpenIncident(row["incident_key"], row["instance_key"], bool(row["is_missed"])) for row in rows]

    async def miss(self, incident_keys: Collection[int]) -> None:
        """Record that the engine's answer did not contain these incidents."""
        await self._database.execute(query("incidents", "miss"), self._engine_id, list(incident_keys))

    async def key_of(self, job_key: int) -> int | None:
        """Return the key of a job's incident, if it is known."""
        row = await self._database.fetchrow(query("incidents", "key_of"), self._engine_id, job_key)
        return None if row is None else row["incident_key"]

    async def find_running(self, instance_keys: Collection[int]) -> dict[int, UUID]:
        """Return those of some engine instances whose entries have not ended, with our own ids."""
        rows = await self._database.fetch(query("incidents", "running"), self._engine_id, list(instance_keys))
        return {row["instance_key"]: row["instance_uid"] for row in rows}

    async def without_gate(self, tasks: Sequence[EngineUserTask]) -> list[EngineUserTask]:
        """Return those of some user tasks that belong to open entries and have no gate."""
        keys = [(task.element_instance_key, task.instance_key) for task in tasks]
        rows = await self._database.fetch(query("incidents", "without_gate"), self._engine_id, *columns(keys, 2))
        wanted = {row["element_instance_key"] for row in rows}
        return [task for task in tasks if task.element_instance_key in wanted]

    async def claim_stalls(self, limit: int, *, between: timedelta) -> list[int]:
        """Return engine instances whose entries make no progress, longest first, each once in a while to one worker."""
        rows = await self._database.fetch(query("incidents", "claim_stalls"), self._engine_id, limit, between)
        return [row["instance_key"] for row in rows]


def _flags(written: Mapping[str, Mapping[str, Any]]) -> dict[str, Flag]:
    """Return the flags that a deployment recorded, as its contract had them."""
    return {
        name: Flag(name, FlagType(flag["type"]), flag["initial"], tuple(flag["values"]))
        for name, flag in written.items()
    }
