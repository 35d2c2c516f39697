"""Frames with an expired lease: the sweep claims them, decides, and closes those whose job is gone."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from verbworker.job.frame import Frame, FrameStep
from verbworker.job.outcome import Incident
from verbworker.stores.database import Database
from verbworker.stores.jobs.frame_rows import frame_of
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.sql import query


@dataclass(frozen=True, slots=True)
class SweptFrame:
    """A frame the sweep claimed: with its previous state, owner and lease, but the new epoch."""

    frame: Frame
    entry_id: UUID | None


@dataclass(frozen=True, slots=True)
class UnconfirmedFrame:
    """A frame reported to the engine, and the engine job to ask about: its own, or the one that walks an undo."""

    engine_id: str
    job_key: int
    epoch: int
    verb: str
    instance_uid: UUID | None
    retries_left: int
    asked_key: int


class ExpiredLeases:
    """The sweep's writes to frames. Every write is a compare-and-set on the epoch it claimed."""

    def __init__(self, database: Database, frames: Frames, *, grace: timedelta) -> None:
        self._database = database
        self._engine_id = frames.engine_id
        self._owner = frames.owner
        self._lease = frames.lease
        self.grace = grace

    async def open(self, limit: int) -> list[int]:
        """Return the keys of frames that the sweep may have to claim later, oldest lease first."""
        rows = await self._database.fetch(query("leases", "open"), self._engine_id, limit)
        return [row["job_key"] for row in rows]

    async def take(self, keys: Sequence[int], limit: int) -> list[SweptFrame]:
        """Claim those of `keys` whose lease expired at least `grace` ago; other workers skip them for one lease."""
        rows = await self._database.fetch(
            query("leases", "take"),
            self._engine_id,
            self._owner,
            self._lease,
            self.grace,
            # A failure due for this long without a claim went to a worker that died before claiming it.
            self._lease * 2,
            limit,
            keys,
        )
        return [SweptFrame(frame_of(row), row["entry_id"]) for row in rows]

    async def run_again(self, abandoned: Sequence[SweptFrame]) -> set[int]:
        """Leave abandoned runs to their next delivery; return the keys that were still ours."""
        ordered = sorted((one.frame for one in abandoned), key=lambda frame: frame.job_key)
        rows = await self._database.fetch(
            query("leases", "run_again"),
            self._engine_id,
            self._owner,
            [frame.job_key for frame in ordered],
            [frame.epoch for frame in ordered],
            [_detail(FrameStep.CLAIM_AGAIN, frame) for frame in ordered],
        )
        return {row["job_key"] for row in rows}

    async def hold(self, taken: SweptFrame, step: FrameStep, incident: Incident) -> bool:
        """Hold an abandoned run for a person; False when it is no longer ours."""
        frame = taken.frame
        row = await self._database.fetchrow(
            query("leases", "hold"),
            self._engine_id,
            frame.job_key,
            self._owner,
            frame.epoch,
            incident.kind,
            incident.code,
            incident.message,
            _detail(step, frame, code=incident.code, text=incident.message),
        )
        return row is not None

    async def note(self, taken: SweptFrame, step: FrameStep) -> None:
        """Record for `frames explain` that the sweep repeated a report."""
        frame = taken.frame
        await self._database.execute(
            query("frames", "note"),
            *(self._engine_id, frame.job_key, "swept", frame.epoch, self._owner, _detail(step, frame)),
        )

    async def postpone(self, taken: SweptFrame, pause: timedelta) -> None:
        """Let any worker claim a frame again after the pause; its report was not accepted."""
        frame = taken.frame
        await self._database.execute(
            query("leases", "postpone"), self._engine_id, frame.job_key, self._owner, frame.epoch, self.grace, pause
        )

    async def ask(self, *, ended_every: timedelta, held_every: timedelta, limit: int) -> list[UnconfirmedFrame]:
        """Return frames whose job may be gone: of ended entries and, after `held_every`, all that wait for a person."""
        rows = await self._database.fetch(
            query("leases", "ask"), self._engine_id, self.grace, ended_every, held_every, limit
        )
        return [UnconfirmedFrame(**row) for row in rows]


def _detail(step: FrameStep, frame: Frame, **more: str) -> str:
    """Return the details of a sweep for `frames explain`."""
    known = {"from": frame.owner, "lease_until": frame.lease_until.isoformat(), "runs": frame.runs}
    return json.dumps({"decision": step.value, **known, **more}, default=str)
