"""What a frame should be, in plain Python: the specification's transitions without a database."""

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from verbworker.job.frame import FrameStep

GRACE_MS = 5_000
MAX_RUNS = 2
RETRIES = 3
WINDOW = timedelta(hours=24)


@dataclass(slots=True)
class ModelFrame:
    """A frame as the specification wants it."""

    owner: UUID
    act: int
    key: str
    state: str = "started"
    epoch: int = 1
    is_live: bool = True
    is_due: bool = False
    is_in_window: bool = True
    runs: int = 1
    infra_runs: int = 0
    retries_left: int = RETRIES
    generation: int = 0
    reported: int | None = None
    acked: bool = False
    output: bytes | None = None
    place: str = "hot"  # then "both", then "archive"

    def is_owned_by(self, owner: UUID, epoch: int) -> bool:
        """Whether a claim may still record an outcome."""
        return self.place != "archive" and (self.state, self.owner, self.epoch) == ("started", owner, epoch)

    def end(self, state: str) -> None:
        """Leave `started`; what was told before counts no more."""
        self.state, self.reported = state, None

    def end_otherwise(self, ending: str) -> None:
        """Leave `started` without an output: T6, T14, T7, or a business verdict."""
        match ending:
            case "fail" | "fail later":
                self.end("failed")
                self.retries_left -= 1
                self.is_due = ending == "fail"
            case "give back":
                self.end("failed")
                self.runs, self.infra_runs, self.is_due = self.runs - 1, self.infra_runs + 1, True
            case "stop":
                self.end("incident")
                self.retries_left = 0
            case _:
                self.end("completed")

    def release(self, new_key: str | None) -> None:
        """A person lets it run again (T12), with a new key as new (T13)."""
        self.state, self.is_due, self.runs, self.infra_runs = "failed", True, 0, 0
        self.retries_left = max(self.retries_left, 1)
        if new_key is not None:
            self.generation, self.key, self.is_in_window = self.generation + 1, new_key, True

    def archive(self, *, is_settled: bool) -> None:
        """Be copied once acknowledged, and leave the hot table when the copy has settled."""
        if self.place == "both" and is_settled:
            self.place = "archive"
        elif self.place == "hot" and self.acked:
            self.place = "both"


@dataclass(slots=True)
class ModelJob:
    """A job, how its verb wants to be treated, and the engine's clock for it."""

    key: int
    mode: str
    on_unknown: str
    clock: int
    frame: ModelFrame | None = None
    effects: int = 0
    keys_used: set[tuple[int, str]] = field(default_factory=set)

    def claim_kind(self, act: int) -> str | None:
        """How a delivery activated at `act` may claim the frame, if it may."""
        frame = self.frame
        if frame is None:
            return "new"
        if frame.place == "archive" or frame.state == "completed" or act <= frame.act:
            return None
        if frame.acked and (frame.place == "both" or self.is_unrepeatable()):
            return None
        match frame.state:
            case "failed":
                return "retry" if frame.is_due else None
            case "started":
                return "takeover" if not frame.is_live and self.hold_reason() is None else None
        is_released = frame.reported is not None and act > frame.reported + GRACE_MS
        return "release" if is_released else None

    def hold_reason(self) -> FrameStep | None:
        """Why a frame whose owner vanished may not run again."""
        assert self.frame is not None
        if self.frame.runs >= MAX_RUNS:
            return FrameStep.HOLD_POISON
        return FrameStep.HOLD_UNKNOWN if self.is_unrepeatable() else None

    def is_unrepeatable(self) -> bool:
        """Whether a call may have gone out that must not go out again."""
        assert self.frame is not None
        return self.mode == "external" and (self.on_unknown == "hold" or not self.frame.is_in_window)

    def is_swept(self) -> bool:
        """Whether the sweep takes the frame when its lease is over."""
        frame = self.frame
        if frame is None or frame.acked or frame.place != "hot":
            return False
        is_unreported = frame.reported is None
        return frame.state == "started" or (is_unreported and (frame.state == "incident" or frame.is_due))

    def sweep(self, owner: UUID) -> FrameStep:
        """Be taken by the sweep, and what it does then."""
        frame = self.frame
        assert frame is not None
        frame.epoch, frame.owner, frame.is_live = frame.epoch + 1, owner, True
        match frame.state:
            case "failed":
                return FrameStep.REPORT_RETRY
            case "incident":
                return FrameStep.REPORT_INCIDENT
        reason = self.hold_reason()
        frame.end("failed" if reason is None else "incident")
        frame.is_due = True
        return reason or FrameStep.CLAIM_AGAIN

    def close(self, owner: UUID) -> None:
        """The engine has no such job any more."""
        assert self.frame is not None
        self.frame.state, self.frame.acked, self.frame.is_due = "failed", True, True
        self.frame.epoch, self.frame.owner = self.frame.epoch + 1, owner
        self.frame.retries_left = max(self.frame.retries_left, 1)

    def step(self, act: int, owner: UUID) -> FrameStep:
        """What the decision table says of a delivery that claimed nothing."""
        frame = self.frame
        assert frame is not None
        if frame.state == "completed":
            return FrameStep.REPLAY
        if frame.state == "started" and frame.is_live and (frame.owner, frame.act) == (owner, act):
            return FrameStep.CONTINUE
        if act <= frame.act:
            return FrameStep.SUPERSEDED
        match frame.state:
            case "failed":
                return FrameStep.QUARANTINE if frame.acked else FrameStep.REPORT_RETRY
            case "incident":
                return FrameStep.REPORT_INCIDENT if frame.reported is None else FrameStep.WAIT
        reason = FrameStep.BUSY if frame.is_live else self.hold_reason()
        assert reason is not None, "a frame that may be claimed was not claimed"
        return reason

    def hold(self, act: int, owner: UUID) -> None:
        """Stop for a person under a new epoch (T8, T9)."""
        assert self.frame is not None
        self.frame.end("incident")
        self.frame.epoch += 1
        self.frame.owner, self.frame.act = owner, act

    def acknowledge(self) -> None:
        """The engine has the verdict (T11)."""
        if self.frame is not None and self.frame.state == "completed":
            self.frame.acked = True

    def claim(self, kind: str, act: int, owner: UUID, key: str) -> ModelFrame:
        """Move to `started` under a new epoch."""
        if self.frame is None:
            self.frame = ModelFrame(owner, act, key)
            return self.frame
        frame = self.frame
        if kind == "release":
            frame.runs, frame.infra_runs, frame.retries_left = 0, 0, RETRIES
        frame.end("started")
        frame.acked = False
        frame.epoch += 1
        frame.runs += 1
        frame.owner, frame.act, frame.is_live, frame.is_due = owner, act, True, False
        return frame
