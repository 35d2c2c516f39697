"""Job frames: push, pop, replay. Every write is a compare-and-set on epoch and owner."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from verbworker.background.poll_loop import PollLoop, Service, run_all
from verbworker.errors import Fenced
from verbworker.job.frame import Claim, Delivery, Frame, FrameState
from verbworker.job.outcome import Incident, Retry, Thrown, Yielded
from verbworker.stores.batch import Batch
from verbworker.stores.cases.payloads import is_known_in
from verbworker.stores.database import Connection, Database
from verbworker.stores.jobs.frame_rows import Unacknowledged as Unacknowledged
from verbworker.stores.jobs.frame_rows import VerdictRow as VerdictRow
from verbworker.stores.jobs.frame_rows import (
    claim_of,
    frame_of,
    mark_twins,
    new_claim,
    open_columns,
    pop_columns,
    push_columns,
    text_of,
    unacknowledged_of,
    verdict_row,
)
from verbworker.stores.sql import query

MAX_INFRASTRUCTURE_RUNS = 100  # outages cost no retry, but not for ever
_ACK_INTERVAL = 0.1  # acknowledgements wait for each other: one statement for many
# Longer than any statement may run: no snapshot from before the copy is left after this. `open` relies on it.
_SETTLED = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class HeldFrame:
    """How many frames wait for a person or for the engine, and the longest wait for the engine."""

    held: int
    unacknowledged: int
    oldest_unacknowledged: float


class Frames:
    """The frames of one engine, written by one process boot."""

    def __init__(
        self,
        database: Database,
        *,
        engine_id: str,
        owner: UUID,
        lease: timedelta = timedelta(seconds=30),
        look_into_archive: bool = True,
        prefix: str = "",
    ) -> None:
        self.engine_id = engine_id
        self.owner = owner
        self.lease = lease
        self._database = database
        self._look_into_archive = look_into_archive
        self._acks: dict[int, str] = {}
        self._open = Batch(self._open_many, _job_key, name=f"{prefix}frame-open")
        self._push = Batch(self._push_many, _job_key, name=f"{prefix}frame-push")
        self._pop = Batch(self._pop_many, lambda verdict: verdict.instance_uid, name=f"{prefix}frame-pop")
        acknowledging = PollLoop(f"{prefix}acknowledgements", self.flush, every=_ACK_INTERVAL)
        self.services: tuple[Service, ...] = (self._open, self._push, self._pop, acknowledging)

    async def run(self) -> None:
        """Run the services that write frames until cancelled."""
        await run_all(self.services)

    async def push(self, delivery: Delivery) -> Claim | None:
        """Claim a delivery (T1, T2, T3, T12), or return None when the existing frame must decide."""
        return await self._open.add(delivery) or await self._push.add(delivery)

    async def _open_many(self, deliveries: list[Delivery]) -> list[Claim | None]:
        ordered = {delivery.job.key: delivery for delivery in sorted(deliveries, key=_job_key)}
        rows = await self._database.fetch(
            query("frames", "open"),
            self.engine_id,
            self.owner,
            self.lease,
            *open_columns(ordered.values()),
            self._look_into_archive,
        )
        made = {row["job_key"]: new_claim(row, ordered[row["job_key"]], self.owner) for row in rows}
        claims = mark_twins(made, ordered.values()) if len(made) > 1 else made
        return [claims.get(delivery.job.key) for delivery in deliveries]

    async def _push_many(self, deliveries: list[Delivery]) -> list[Claim | None]:
        rows = await self._database.fetch(
            query("frames", "push"),
            self.engine_id,
            self.owner,
            self.lease,
            *push_columns(deliveries),
            self._look_into_archive,
        )
        claims = {row["job_key"]: claim_of(row) for row in rows}
        return [claims.get(delivery.job.key) for delivery in deliveries]

    async def resume(self, job_key: int) -> Claim | None:
        """Return our own claim on a job after the answer to its push was lost."""
        row = await self._database.fetchrow(query("frames", "resume"), self.engine_id, job_key, self.owner)
        return None if row is None else claim_of(row)

    async def observe(self, job_key: int) -> Frame | None:
        """Count an unclaimed delivery and return the existing frame, also from the archive."""
        row = await self._database.fetchrow(query("frames", "observe"), self.engine_id, job_key)
        if row is None:
            row = await self._database.fetchrow(query("frames", "read_archived"), self.engine_id, job_key)
        return None if row is None else frame_of(row)

    async def read(self, job_key: int) -> Frame | None:
        """Return the current frame of a job."""
        row = await self._database.fetchrow(query("frames", "read"), self.engine_id, job_key)
        return None if row is None else frame_of(row)

    async def settle(self, claim: Claim) -> FrameState:
        """Wait, after a lost connection, until our own write has ended, and return the resulting state (C5)."""
        row = await self._database.fetchrow(query("frames", "settle"), self.engine_id, claim.job_key)
        if row is None or (row["epoch"], row["owner"]) != (claim.epoch, claim.owner):
            raise Fenced(f"job {claim.job_key} was claimed by another worker")
        return FrameState(row["state"])

    async def heartbeat(self, running: Mapping[int, int]) -> set[int]:
        """Renew the leases of `running` (job key -> epoch) and return the keys that are no longer ours."""
        keys, epochs = list(running), list(running.values())
        rows = await self._database.fetch(
            query("frames", "heartbeat"), self.engine_id, self.owner, self.lease, keys, epochs
        )
        missed = {key: epoch for key, epoch in running.items() if key not in {row["job_key"] for row in rows}}
        if not missed:
            return set()
        ours = await self._database.fetch(
            query("frames", "still_mine"), self.engine_id, self.owner, list(missed), list(missed.values())
        )
        return missed.keys() - {row["job_key"] for row in ours}

    async def pop_completed(self, verdict: VerdictRow) -> bool:
        """Store a verdict (T5). False when the payload head moved on and the caller must merge first."""
        return _require_claim(verdict, await self._pop.add(verdict))

    async def pop_completed_in(self, connection: Connection, verdict: VerdictRow) -> bool:
        """Store a verdict in the verb's own transaction; False when the payload head moved on."""
        popped = await connection.fetchval(query("frames", "pop_one"), *self.columns_of(verdict))
        return _require_claim(verdict, popped)

    def columns_of(self, verdict: VerdictRow) -> tuple[object, ...]:
        """Return one verdict as Postgres takes it, with its engine and owner."""
        return (self.engine_id, self.owner, *verdict_row(verdict))

    async def _pop_many(self, verdicts: list[VerdictRow]) -> list[bool | None]:
        # Correlation keys are rare: only they need a second statement, and therefore a transaction.
        whole = self._database.transaction if any(one.correlation for one in verdicts) else self._database.acquire
        async with whole() as connection:
            return await self._pop_all_in(connection, verdicts)

    async def _pop_all_in(self, connection: Connection, verdicts: list[VerdictRow]) -> list[bool | None]:
        columns = pop_columns(sorted(verdicts, key=lambda verdict: verdict.claim.job_key))
        rows = await connection.fetch(query("frames", "pop_completed"), self.engine_id, self.owner, *columns)
        popped = {row["job_key"]: row["popped"] for row in rows}
        for one in verdicts:
            if one.correlation and popped.get(one.claim.job_key):
                await connection.execute(query("frames", "correlate"), one.instance_uid, text_of(one.correlation))
        return [popped.get(verdict.claim.job_key) for verdict in verdicts]

    async def pop_variables(self, claim: Claim, output: bytes, digest: bytes, seal: str) -> None:
        """Store the variables of a plain job (T5); it has no payload whose head could move."""
        await self._run_fenced_query("pop_variables", claim, output, digest, seal)

    async def pop_thrown(self, claim: Claim, thrown: Thrown) -> None:
        """Store a business verdict with its code (T5)."""
        await self._run_fenced_query("pop_thrown", claim, thrown.code, thrown.message)

    async def pop_failed(self, claim: Claim, retry: Retry) -> int:
        """Record a failed run (T6) and return the retries left."""
        delay = timedelta(seconds=retry.delay)
        return await self._run_fenced_query("pop_failed", claim, delay, retry.kind, retry.code, retry.message)

    async def pop_yielded(self, claim: Claim, yielded: Yielded) -> int | None:
        """Hand a run back without spending a retry (T14). None when that has happened too often."""
        try:
            return await self._run_fenced_query(
                "pop_yielded",
                claim,
                timedelta(seconds=yielded.delay),
                yielded.code,
                yielded.message,
                MAX_INFRASTRUCTURE_RUNS,
            )
        except Fenced:
            frame = await self.read(claim.job_key)
            mine = (claim.epoch, claim.owner, FrameState.STARTED)
            if frame is not None and (frame.epoch, frame.owner, frame.state) == mine:
                return None
            raise

    async def pop_incident(self, claim: Claim, incident: Incident) -> None:
        """Stop a run for a person (T7)."""
        await self._run_fenced_query("pop_incident", claim, incident.kind, incident.code, incident.message)

    async def _run_fenced_query(self, name: str, claim: Claim, *args: object) -> int:
        row = await self._database.fetchrow(
            query("frames", name), self.engine_id, claim.job_key, claim.owner, claim.epoch, *args
        )
        if row is None:
            raise Fenced(f"job {claim.job_key} was claimed by another worker")
        left: int = row[0]
        return left

    async def close(self, job_key: int, epoch: int, *, code: str, message: str, engine_id: str | None = None) -> bool:
        """End a frame whose job the engine no longer has; False when the frame has changed since it was read."""
        place = engine_id or self.engine_id, job_key, epoch, self.owner
        return await self._database.fetchrow(query("frames", "close"), *place, code, message) is not None

    async def hold(self, frame: Frame, activated_ms: int, *, code: str, message: str) -> int | None:
        """Hold a frame whose owner vanished (T8, T9); return its new epoch, or None when another worker was faster."""
        row = await self._database.fetchrow(
            query("frames", "hold"),
            self.engine_id,
            frame.job_key,
            self.owner,
            frame.epoch,
            activated_ms,
            code,
            message,
        )
        return None if row is None else row["epoch"]

    async def record_report(self, job_key: int, epoch: int) -> None:
        """Record that the engine accepted our report of this epoch (T10)."""
        await self._database.execute(query("frames", "reported"), self.engine_id, job_key, epoch, self.owner)

    def acknowledge(self, job_key: int, result: str) -> None:
        """Queue that the engine has the verdict (T11). If the process dies before the write, the relay asks again."""
        self._acks[job_key] = result

    async def acknowledge_in(self, connection: Connection | Database, acks: Mapping[int, str]) -> None:
        """Write acknowledgements now, also inside the transaction that informed the engine."""
        for result in sorted(set(acks.values())):
            keys = sorted(key for key, given in acks.items() if given == result)
            await connection.execute(query("frames", "acknowledge"), self.engine_id, keys, result)

    async def flush(self) -> int:
        """Write the queued acknowledgements and return 0; those that cannot be written are kept for the next time.

        It requests no second call: acknowledgements that arrive meanwhile share the statement of the next tick.
        """
        acks, self._acks = self._acks, {}
        try:
            await self.acknowledge_in(self._database, acks)
        except BaseException:
            self._acks = acks | self._acks
            raise
        return 0

    async def claim_unsent(self, *, older_than: timedelta, hold: timedelta, limit: int) -> list[Unacknowledged]:
        """Return verdicts to send again; no other caller gets them for `hold`."""
        rows = await self._database.fetch(query("frames", "relay"), self.engine_id, older_than, hold, limit)
        return [unacknowledged_of(row) for row in rows]

    async def release(
        self, frame: Frame, *, retries: int, new_key: str | None = None, by: str = "", reason: str = ""
    ) -> tuple[int, int] | None:
        """Let a held frame run again (T12), as new with `new_key` (T13). None when it is no longer held."""
        row = await self._database.fetchrow(
            query("frames", "release"),
            self.engine_id,
            frame.job_key,
            frame.epoch,
            retries,
            0 if new_key is None else 1,
            new_key,
            by,
            reason,
        )
        return None if row is None else (row["retries_left"], row["generation"])

    async def archive(self, *, older_than: timedelta, settled: timedelta = _SETTLED, limit: int = 5000) -> int:
        """Copy acknowledged frames to the archive and return how many; after `settled` they leave the hot table."""
        async with self._database.acquire() as connection:
            await connection.fetch(query("frames", "prune"), settled, limit)
            await connection.fetch(query("frames", "archive_months"), older_than)
            copied: int = await connection.fetchval(query("frames", "archive"), older_than, limit)
        return copied

    async def count_waiting(self) -> HeldFrame:
        """Return how much waits for a person and for the engine."""
        row = await self._database.fetchrow(query("frames", "held"), self.engine_id)
        return (
            HeldFrame(row["held"], row["unacknowledged"], row["oldest_unacknowledged"]) if row else HeldFrame(0, 0, 0.0)
        )

    async def note(self, job_key: int, kind: str, *, epoch: int | None = None, detail: str = "") -> None:
        """Record something unusual for `frames explain`."""
        await self._database.execute(query("frames", "note"), self.engine_id, job_key, kind, epoch, self.owner, detail)

    async def quarantine(self, job_key: int, delivery: Mapping[str, object]) -> None:
        """Store a delivery that carries another job's key; nothing of the frame is replayed."""
        seen = json.dumps(delivery, default=str)
        await self._database.execute(query("frames", "quarantine"), self.engine_id, job_key, seen)

    async def is_genuine(self, delivery: Delivery) -> bool:
        """Return whether the payload of a delivery is one of its instance's own."""
        if delivery.instance_uid is None:
            return False
        async with self._database.acquire() as connection:
            return await is_known_in(connection, delivery.instance_uid, delivery.input_hash)

    async def displace(self, frame: Frame, delivery: Delivery) -> bool:
        """Archive a frame whose key the engine gave to another job; return False if the frame changed meanwhile.

        A broker that lost its last records reuses keys, and so does a recreated one.
        """
        epoch = frame.epoch
        if frame.state is FrameState.COMPLETED:
            await self.acknowledge_in(self._database, {frame.job_key: "displaced"})
        elif frame.acked_at is None:
            text = "the engine gave the key to another job"
            epoch += await self.close(frame.job_key, frame.epoch, code="KeyReused", message=text)
        async with self._database.transaction() as connection:
            await connection.fetch(query("frames", "archive_months"), timedelta(0))
            place = self.engine_id, frame.job_key, epoch
            if await connection.fetchrow(query("frames", "displace"), *place) is None:
                return False
            ((*columns,),) = zip(*push_columns([delivery]), strict=True)
            await connection.execute(query("frames", "reopen"), self.engine_id, self.owner, epoch, *columns)
        return True

    async def boot(self, *, name: str, host: str, pid: int, leases: bool = False) -> None:
        """Record a name for this process boot, and whether it takes jobs under the engine's leases."""
        await self._database.execute(query("frames", "boot"), self.owner, name, host, pid, self.engine_id, leases)

    async def note_alive(self) -> None:
        """Record that this process still runs, so that its name is kept and its engine counts as served."""
        await self._database.execute(query("frames", "seen"), self.owner)

    async def note_end(self) -> None:
        """Record that this process takes no more jobs."""
        await self._database.execute(query("frames", "left"), self.owner)


def _require_claim(verdict: VerdictRow, answer: bool | None) -> bool:
    if answer is None:
        raise Fenced(f"job {verdict.claim.job_key} was claimed by another worker")
    return answer


def _job_key(delivery: Delivery) -> int:
    return delivery.job.key
