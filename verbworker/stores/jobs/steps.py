"""Steps: the frames of one step of one instance, under all job keys the engine delivered it with."""

import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from verbworker.errors import Fenced
from verbworker.job.frame import Claim, FrameState
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult
from verbworker.stores.database import Connection, Database
from verbworker.stores.sql import query


@dataclass(frozen=True, slots=True)
class Twin:
    """The frame of another job of the same step."""

    job_key: int
    state: FrameState
    mode: str
    on_unknown: str
    epoch: int
    runs: int
    is_live: bool
    is_remembered: bool
    fail_code: str | None
    keyed_at: datetime
    acked_at: datetime | None
    is_confirmed: bool  # whether the engine completed its job, and did not merely miss it
    process_instance_key: int
    activated_ms: int
    is_heard: bool  # whether its output, or a later one, came with the job


@dataclass(frozen=True, slots=True)
class ThrownTwin:
    """The frame of another job of the same step whose call ended by a BPMN error."""

    job_key: int
    is_answered: bool  # whether the engine answered the error at all
    is_confirmed: bool  # whether it took the error, and did not merely miss the job


class Steps:
    """The steps of one engine. A step is an instance, an element and, unless that is entered once, an input."""

    def __init__(self, database: Database, *, engine_id: str) -> None:
        self._database = database
        self._engine_id = engine_id

    async def twins(self, job: Job, instance_uid: UUID, input_hash: bytes, *, is_once: bool) -> list[Twin]:
        """Return the frames of other jobs of this job's step; for an element entered once, with any input."""
        return await self.twins_in(self._database, job, instance_uid, input_hash, is_once=is_once)

    async def twins_in(
        self, connection: Connection | Database, job: Job, instance_uid: UUID, input_hash: bytes, *, is_once: bool
    ) -> list[Twin]:
        """Return the twins of a job, read inside a transaction."""
        place = self._engine_id, instance_uid, job.key, job.element_id, input_hash, is_once
        rows = await connection.fetch(query("steps", "twins"), *place)
        return [Twin(**{**row, "state": FrameState(row["state"])}) for row in rows]

    async def thrown(self, job: Job, instance_uid: UUID, input_hash: bytes, *, is_once: bool) -> list[ThrownTwin]:
        """Return the calls of this job's step that ended by a BPMN error under other keys, the latest first."""
        place = self._engine_id, instance_uid, job.key, job.element_id, input_hash, is_once
        return [ThrownTwin(**row) for row in await self._database.fetch(query("steps", "thrown"), *place)]

    async def follow(self, claim: Claim, twin: ThrownTwin) -> str:
        """Take over a twin's idempotency key; raise `Fenced` when the claim is lost."""
        row = await self._database.fetchrow(query("steps", "follow"), *self._of(claim), twin.job_key)
        if row is None:
            raise Fenced(f"job {claim.job_key} was claimed by another worker")
        key: str = row["idempotency_key"]
        return key

    async def repeat(self, claim: Claim, twin: Twin) -> JobResult:
        """Store a completed twin's verdict as this claim's own and return it; raise `Fenced` when the claim is lost."""
        row = await self._database.fetchrow(query("steps", "repeat"), *self._of(claim), twin.job_key)
        if row is None:
            raise Fenced(f"job {claim.job_key} was claimed by another worker")
        flags, correlation = json.loads(row["flags"] or "{}"), json.loads(row["correlation"] or "{}")
        return JobResult(row["output"], row["output_seal"], flags, correlation)

    async def succeed(self, claim: Claim, twin: Twin) -> str | None:
        """Close a twin that stopped and take over its idempotency key; None when the twin moved on meanwhile."""
        row = await self._database.fetchrow(query("steps", "succeed"), *self._of(claim), twin.job_key, twin.epoch)
        return None if row is None else row["idempotency_key"]

    async def is_cleared(self, claim: Claim) -> bool:
        """Return whether a person released this claim's frame after it was held as ambiguous."""
        row = await self._database.fetchrow(query("steps", "is_cleared"), self._engine_id, claim.job_key)
        return row is not None and bool(row["is_cleared"])

    def _of(self, claim: Claim) -> tuple[object, ...]:
        return self._engine_id, claim.job_key, claim.owner, claim.epoch
