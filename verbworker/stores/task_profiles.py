"""The terms of deployed models, by the digest that their jobs carry, and how often each step was come to."""

import json
from datetime import timedelta

from verbworker.job.job import Job
from verbworker.profile.task_profile import HEADER, ProcessProfile
from verbworker.stores.database import Database
from verbworker.stores.sql import query


class TaskProfileStore:
    """What models were deployed with. Terms never change, so what was read once is kept."""

    def __init__(self, database: Database, *, engine_id: str) -> None:
        self._database = database
        self._engine_id = engine_id
        self._known: dict[str, ProcessProfile] = {}

    async def of(self, job: Job) -> ProcessProfile | None:
        """The terms a job names; None when it names none, or none that are known here."""
        digest = job.headers.get(HEADER)
        if digest is None:
            return None
        if digest not in self._known:
            row = await self._database.fetchrow(query("terms", "find"), digest)
            if row is None:
                return None
            self._known[digest] = ProcessProfile.of(digest, json.loads(row["ir"]), json.loads(row["policies"]))
        return self._known[digest]

    async def definition_of(self, definition_key: int) -> str | None:
        """The `definitionId` of a version of a process, when it was deployed with a profile."""
        row = await self._database.fetchrow(query("terms", "definition_of"), self._engine_id, definition_key)
        return None if row is None else row["definition_id"]

    async def visit(self, job: Job) -> int:
        """Which visit to its step a job is, counted from 1 in its instance; retries of a job are the same visit."""
        place = (self._engine_id, job.process_instance_key, job.element_id, job.element_instance_key)
        while (row := await self._database.fetchrow(query("terms", "visit"), *place)) is None:
            continue
        number: int = row["visit"]
        return number

    async def forget_visits(self, *, ended_before: timedelta, limit: int) -> int:
        """Take away the counts of instances that ended so long ago; returns how many."""
        row = await self._database.fetchrow(query("terms", "forget_visits"), self._engine_id, ended_before, limit)
        return 0 if row is None else row["forgotten"]
