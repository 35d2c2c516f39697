"""Releases: a person lets a held job run again; the frame is released before the engine's job."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from verbworker.engine.protocol import Engine, SameDatabase
from verbworker.errors import EngineError, EngineUnavailable
from verbworker.job.frame import FrameState, renewed_key
from verbworker.retrying import ENGINE
from verbworker.stores.jobs.compensations import Compensations
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories, History

Answer = TypeVar("Answer")

_INSIST_S: Final = 10.0  # a dropped connection or a busy gateway is over by then, and a person waits


@dataclass(frozen=True, slots=True)
class Release:
    """A person's request: who, why, and whether external systems may see it as another job (T13) or not (T12)."""

    job_key: int
    by: str
    reason: str
    retries: int
    as_new: bool = False
    incident_key: int | None = None


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """Whether everything was done, and a sentence on what was done and what is left."""

    done: bool
    sentence: str


async def insist(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return the engine's answer to a call that a person waits for; one that was not answered is sent again."""
    return await ENGINE.run(call, within=_INSIST_S)


class Releases:
    """Releases held frames of one engine; without an engine connection, the incident is left to a person.

    With `records` the frames are those of undos, and the engine's job is the one that walks them.
    """

    def __init__(
        self, frames: Frames, histories: Histories, engine: Engine | None, *, records: Compensations | None = None
    ) -> None:
        self._frames = frames
        self._histories = histories
        self._engine = engine
        self._records = records

    async def release(self, wanted: Release) -> ReleaseAnswer:
        """Release a frame, then the engine's job. A repeated call repeats only what the engine has not received."""
        history = await self._histories.read(wanted.job_key)
        if history is None:
            return ReleaseAnswer(False, f"job {wanted.job_key} has no frame on engine {self._frames.engine_id}")
        if _is_released(history):
            return await self._tell_engine(wanted, history.frame.retries_left, "the frame was released before")
        if history.frame.state is not FrameState.INCIDENT:
            return ReleaseAnswer(False, f"job {wanted.job_key} is not held: its frame is {history.frame.state.value}")
        frame = await self._frames.read(wanted.job_key)
        left = None
        if frame is not None and frame.epoch == history.frame.epoch:
            key = None
            if wanted.as_new:
                key = renewed_key(self._frames.engine_id, frame, history.frame.generation + 1)
            left = await self._frames.release(
                frame, retries=wanted.retries, new_key=key, by=wanted.by, reason=wanted.reason
            )
        if left is None:
            return ReleaseAnswer(False, f"job {wanted.job_key} changed while it was released; look at it again")
        return await self._tell_engine(wanted, left[0], "the frame is released")

    async def _tell_engine(self, wanted: Release, retries: int, done: str) -> ReleaseAnswer:
        if self._engine is None:
            return ReleaseAnswer(True, f"{done}; give the job {retries} retries and resolve its incident in the engine")
        job_key = wanted.job_key
        if self._records is not None:
            job_key = await self._records.job_of(wanted.job_key) or job_key
        call = partial(self._engine.release, job_key, retries=retries, incident_key=wanted.incident_key)
        try:
            await insist(call)
        except EngineUnavailable as error:
            return ReleaseAnswer(False, f"{done}, but the engine did not get it: {error}; run this again")
        except EngineError as error:
            return ReleaseAnswer(False, f"{done}, but the engine did not get it: {error}; fix that and run this again")
        if wanted.incident_key is None and not isinstance(self._engine, SameDatabase):
            return ReleaseAnswer(
                True,
                f"{done} and the job has {retries} retries, but it does not run yet, although its entry shows"
                " executing; resolve its incident in the engine, or run this again with --incident-key",
            )
        return ReleaseAnswer(True, f"{done} and its incident is resolved; the job runs with the next delivery")


def _is_released(history: History) -> bool:
    kinds = [event.kind for event in history.events]
    return history.frame.state is FrameState.FAILED and kinds[-1:] == ["released"]
