"""Builders for frames: jobs, deliveries, instances and verdicts, and a place that has them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from verbworker.job.frame import Claim, Delivery, Frame, idempotency_key
from verbworker.job.job import Job
from verbworker.job.outcome import Incident, Retry, Thrown, Yielded
from verbworker.stores.cases.instances import Instance, Instances
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames, VerdictRow

ENGINE = "engine-1"
FIRST = b'{"step":0}'
FAR = 4_000_000_000_000
"""An activation long after anything a test reports: the year 2096."""

RETRY = Retry(kind="TransientExternal", code="Timeout", message="no answer", delay=0)
LATER = replace(RETRY, delay=3600)
YIELD = Yielded(code="Shutdown", message="the worker stops", delay=0)
INCIDENT = Incident(kind="PermanentContract", code="PayloadIntegrityError", message="hash differs")
THROWN = Thrown(code="REJECTED", message="the reviewer said no")


INSTANCE_KEY = 9000


def make_job(key: int = 1, *, at: int = 1, **changes: Any) -> Job:
    """A delivery of job `key`, activated at the engine's time `at`."""
    job = Job(
        key=key,
        type="kyc.check",
        retries=3,
        activated_ms=at,
        timeout_ms=60_000,
        process_instance_key=INSTANCE_KEY,
        element_instance_key=8000 + key,
        process_definition_key=7000,
        process_version=1,
        process_id="kyc",
        element_id="check",
        tenant_id="default",
    )
    return replace(job, **changes)


def make_instance(**changes: Any) -> Instance:
    """An instance that is about to be started."""
    instance = Instance(
        instance_uid=uuid4(),
        tenant_id="default",
        entry_id=uuid4(),
        verb="kyc.open-case",
        verb_version="1",
        payload_schema="kyc.open-case/v1",
        engine_id=ENGINE,
        process_id="kyc",
        payload=FIRST,
    )
    return replace(instance, **changes)


def key_of(instance: Instance) -> int:
    """The engine's key of an instance in these tests; further instances of a place have keys of their own."""
    return INSTANCE_KEY if instance.business_key is None else instance.instance_uid.int % 2**40 + INSTANCE_KEY + 1


async def open_pinned(database: Database, instance: Instance) -> None:
    """Open an instance that the engine has started."""
    instances = Instances(database)
    await instances.open(instance)
    pinned = await instances.pin(instance.instance_uid, instance_key=key_of(instance), definition_key=7000, version=1)
    assert pinned


def make_delivery(job: Job, instance: Instance | None = None, **changes: Any) -> Delivery:
    """A job as it is pushed, of a verb whose crashes may be repeated five times."""
    if instance is not None and job.process_instance_key == INSTANCE_KEY:
        job = replace(job, process_instance_key=key_of(instance))
    delivery = Delivery(
        job=job,
        instance_uid=None if instance is None else instance.instance_uid,
        entry_id=None if instance is None else instance.entry_id,
        mode="transactional",
        on_unknown="rerun",
        max_runs=5,
        idempotency_window=timedelta(hours=24),
        idempotency_key=idempotency_key(ENGINE, job),
        retries=job.retries,
        input_hash=sha256(FIRST).digest(),
    )
    return replace(delivery, **changes)


def make_verdict(claim: Claim, uid: UUID, *, base: bytes = FIRST, output: bytes = b'{"step":1}') -> VerdictRow:
    """A completed run that read `base` and wrote `output`."""
    return VerdictRow(
        claim=claim,
        instance_uid=uid,
        base_hash=sha256(base).digest(),
        output=output,
        output_hash=sha256(output).digest(),
        seal="sha256:" + sha256(output).hexdigest(),
        flags={"orch_step": 1},
        correlation={"corr_case": "c-1"},
    )


def claim_of(frame: Frame, owner: UUID, epoch: int) -> Claim:
    """A claim somebody might believe to hold."""
    return Claim(
        job_key=frame.job_key,
        epoch=epoch,
        owner=owner,
        claimed_from="new",
        runs=1,
        retries_left=3,
        generation=0,
        idempotency_key="k",
        first_run_at=frame.keyed_at,
        now=frame.now,
        lease_until=frame.lease_until,
    )


@dataclass(frozen=True, slots=True)
class Place:
    """A database with one opened instance, and hands that may move time in it."""

    database: Database
    instance: Instance

    def delivery(self, key: int = 1, *, at: int = 1, **changes: Any) -> Delivery:
        """A delivery of a job of the opened instance."""
        return make_delivery(make_job(key, at=at), self.instance, **changes)

    def verdict(self, claim: Claim, *, base: bytes = FIRST, output: bytes = b'{"step":1}') -> VerdictRow:
        """A verdict for the opened instance."""
        return make_verdict(claim, self.instance.instance_uid, base=base, output=output)

    async def open(self, instance: Instance | None = None) -> Instance:
        """Open one more instance."""
        another = instance or make_instance(business_key="another")
        await open_pinned(self.database, another)
        return another

    async def change(self, key: int = 1, **columns: str) -> None:
        """Set columns of a frame to SQL expressions, as only a test may."""
        assignments = ", ".join(f"{name} = {expression}" for name, expression in columns.items())
        await self.database.execute(f"UPDATE verbworker.job_frame SET {assignments} WHERE job_key = $1", key)

    async def expire(self, key: int = 1) -> None:
        """Let the lease of a frame be over."""
        await self.change(key, lease_until="clock_timestamp() - interval '1 second'")

    async def column(self, name: str, key: int = 1) -> Any:
        """One column of one frame."""
        row = await self.database.fetchrow(f"SELECT {name} FROM verbworker.job_frame WHERE job_key = $1", key)
        return None if row is None else row[0]

    async def row(self, key: int = 1) -> Mapping[str, object]:
        """A frame with every column, to see that nothing changed."""
        row = await self.database.fetchrow("SELECT * FROM verbworker.job_frame WHERE job_key = $1", key)
        return {} if row is None else dict(row)


@asynccontextmanager
async def opened(dsn: str, *, size: int = 4) -> AsyncIterator[Place]:
    """A connected database with one instance in it."""
    async with Database(dsn, size=size) as database:
        instance = make_instance()
        await open_pinned(database, instance)
        yield Place(database, instance)


@asynccontextmanager
async def working(database: Database, *, owner: UUID | None = None, **options: Any) -> AsyncIterator[Frames]:
    """The frames as one process boot writes them, with its writers running."""
    frames = Frames(database, engine_id=ENGINE, owner=owner or uuid4(), **options)
    async with asyncio.TaskGroup() as group:
        writers = group.create_task(frames.run())
        try:
            yield frames
        finally:
            writers.cancel()


async def claimed(frames: Frames, delivery: Delivery) -> Claim:
    """Push a delivery that must be claimed."""
    claim = await frames.push(delivery)
    assert claim is not None, f"job {delivery.job.key} was not claimed"
    return claim


async def standing(frames: Frames, key: int = 1) -> Frame:
    """Read a frame that must exist."""
    frame = await frames.read(key)
    assert frame is not None, f"job {key} has no frame"
    return frame
