"""Compensations: which steps of an instance are to be undone, and which are. Frames write how each one goes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from verbworker.job.job import Job
from verbworker.stores.database import Database
from verbworker.stores.sql import query

UNDO = "/undo"
"""What an engine's name ends in when its jobs are the records here."""


@dataclass(frozen=True, slots=True)
class Record:
    """One step that still stands: its verb, what undoes it, and the engine's job that was last at it."""

    record_id: int
    verb: str
    undo: str
    element_id: str
    element_instance_key: int
    job_key: int
    state: str

    @property
    def is_held(self) -> bool:
        """Whether its undo stopped for a person."""
        return self.state == "held"


class Compensations:
    """The compensation records in their database."""

    def __init__(self, database: Database, *, engine_id: str) -> None:
        self._database = database
        self.engine_id = engine_id + UNDO

    async def next(self, instance_uid: UUID, job: Job, manifest: Mapping[str, str]) -> Record | None:
        """Record what was done and can be undone, then hand out the youngest step that still stands."""
        async with self._database.transaction() as connection:
            await connection.execute(
                query("compensations", "plan"),
                instance_uid,
                job.key,
                job.element_id,
                job.element_instance_key,
                list(manifest),
                list(manifest.values()),
            )
            row = await connection.fetchrow(query("compensations", "next"), instance_uid)
        return None if row is None else Record(**row)

    async def adopt(self, record: Record) -> None:
        """Have a held record's incident told again, to the job that walks now."""
        await self._database.execute(query("compensations", "adopt"), self.engine_id, record.record_id)

    async def take(self, record: Record, job: Job) -> bool:
        """Have `job` hear how a record goes; False when it is undone by now."""
        return await self._database.fetchrow(query("compensations", "take"), record.record_id, job.key) is not None

    async def is_undone(self, record: Record) -> bool:
        """Whether the step stands no more."""
        row = await self._database.fetchrow(query("compensations", "is_undone"), record.record_id)
        return row is not None and bool(row["undone"])

    async def returned(self, instance_uid: UUID, job: Job) -> list[dict[str, Any]]:
        """What each undo of a job set, in order; nothing when the job found nothing to undo."""
        rows = await self._database.fetch(query("compensations", "returned"), instance_uid, job.key)
        return [json.loads(row["variables"]) for row in rows]

    async def job_of(self, record_id: int) -> int | None:
        """The engine's job that waits for a record."""
        row = await self._database.fetchrow(query("compensations", "job_of"), record_id)
        return None if row is None else row["job_key"]
