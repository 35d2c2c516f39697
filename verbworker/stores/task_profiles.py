"""The profiles of deployed models, by the digest in their jobs' headers, and the visits to each step."""

import json
from datetime import timedelta

from verbworker.job.job import Job
from verbworker.profile.task_profile import HEADER, ProcessProfile
from verbworker.stores.database import Database
from verbworker.stores.sql import query


class TaskProfileStore:
    """Profiles that models were deployed with. A profile never changes, so it is cached after the first read."""

    def __init__(self, database: Database, *, engine_id: str) -> None:
        self._database = database
        self._engine_id = engine_id
        self._known: dict[str, ProcessProfile] = {}

    async def of(self, job: Job) -> ProcessProfile | None:
        """Return the profile a job names; None when it names none or the profile is unknown here."""
        digest = job.headers.get(HEADER)
        if digest is None:
            return None
        if digest not in self._known:
            row = await self._database.fetchrow(query("task_profiles", "find"), digest)
            if row is None:
                return None
            self._known[digest] = ProcessProfile.of(digest, json.loads(row["ir"]), json.loads(row["policies"]))
        return self._known[digest]

    async def definition_of(self, definition_key: int) -> str | None:
        """Return the `definitionId` of a process version; None when it was deployed without a profile."""
        row = await self._database.fetchrow(query("task_profiles", "definition_of"), self._engine_id, definition_key)
        return None if row is None else row["definition_id"]

    async def visit(self, job: Job) -> int:
        """Return which visit to its step a job is, from 1 per instance; retries of a job are the same visit."""
        place = (self._engine_id, job.process_instance_key, job.element_id, job.element_instance_key)
        while (row := await self._database.fetchrow(query("task_profiles", "visit"), *place)) is None:
            continue
        number: int = row["visit"]
        return number

    async def forget_visits(self, *, ended_before: timedelta, limit: int) -> int:
        """Delete the visit counts of instances that ended that long ago; return how many."""
        row = await self._database.fetchrow(
            query("task_profiles", "forget_visits"), self._engine_id, ended_before, limit
        )
        return 0 if row is None else row["forgotten"]
