"""Compensation records: which steps of an instance are to be undone, and which are. Frames track each undo."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from verbworker.job.job import Job
from verbworker.stores.database import Database
from verbworker.stores.sql import query

UNDO = "/undo"
"""Suffix of the engine ID whose jobs are the records here."""


@dataclass(frozen=True, slots=True)
class Record:
    """One step not yet undone: its verb, the verb that undoes it, and the engine job that last handled it."""

    record_id: int
    verb: str
    undo: str
    element_id: str
    element_instance_key: int
    job_key: int
    state: str

    @property
    def is_held(self) -> bool:
        """Return whether its undo stopped for a person."""
        return self.state == "held"


class Compensations:
    """The compensation records of one database."""

    def __init__(self, database: Database, *, engine_id: str) -> None:
        self._database = database
        self.engine_id = engine_id + UNDO

    async def next(self, instance_uid: UUID, job: Job, manifest: Mapping[str, str]) -> Record | None:
        """Record the completed steps that can be undone, then return the newest one not yet undone."""
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
        """Have a held record's incident reported again, to the job that walks the undo now."""
        await self._database.execute(query("compensations", "adopt"), self.engine_id, record.record_id)

    async def take(self, record: Record, job: Job) -> bool:
        """Assign a record to `job`, which receives its result; False when it is already undone."""
        return await self._database.fetchrow(query("compensations", "take"), record.record_id, job.key) is not None

    async def is_undone(self, record: Record) -> bool:
        """Return whether the step is undone."""
        row = await self._database.fetchrow(query("compensations", "is_undone"), record.record_id)
        return row is not None and bool(row["undone"])

    async def variables_of(self, instance_uid: UUID, job: Job) -> list[dict[str, Any]]:
        """Return the variables each undo of a job set, in order; empty when the job found nothing to undo."""
        rows = await self._database.fetch(query("compensations", "returned"), instance_uid, job.key)
        return [json.loads(row["variables"]) for row in rows]

    async def job_of(self, record_id: int) -> int | None:
        """Return the engine job that waits for a record."""
        row = await self._database.fetchrow(query("compensations", "job_of"), record_id)
        return None if row is None else row["job_key"]
