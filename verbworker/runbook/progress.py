"""Progress of an entry, as one word or as a sentence, for people who never saw the process."""

from collections.abc import Sequence
from dataclasses import dataclass

from verbworker.runbook.event import Entry, Event, Kind, OpenToken, Stall, StallKind, Status

_COARSE = {Status.EXECUTING: "in progress", Status.PARKED: "parked"}


@dataclass(frozen=True, slots=True)
class Progress:
    """How many steps are done, how many the usual path has, and what the entry waits for."""

    status: Status
    done: int
    total: int
    waits: tuple[str, ...] = ()
    stalls: tuple[str, ...] = ()

    @property
    def detailed(self) -> str:
        """Return for example `3 of 5, awaiting reviewer`, or `3 of 5, stalled`."""
        so_far = f"{self.done} of {self.total}" if self.total else f"{self.done} steps"
        parts = (self.status.value,) if self.status.is_final else (*map(_lower, self.waits), *self.stalls)
        return ", ".join((so_far, *parts))


def coarse_progress(status: Status) -> str:
    """Return in progress, parked or done, without how it ended."""
    return _COARSE.get(status, "done")


def progress(
    entry: Entry, events: Sequence[Event], waits: Sequence[OpenToken], stalls: Sequence[Stall] = (), *, steps: int
) -> Progress:
    """Return an entry's progress from its events and waits; `steps` is the length of the usual path.

    Every step in the list of events counts; one that is repeated in a loop makes the path longer. On another path than
    the usual one, the total is at least the steps done.
    """
    done = [_step(event) for event in events if event.kind in (Kind.STEP_COMPLETED, Kind.GATE_DECIDED)]
    reasons, kinds = [wait.reason for wait in waits], [stall.kind for stall in stalls]
    return progress_of(entry.status, len(done), steps, reasons, kinds, repeats=len(done) - len(set(done)))


def progress_of(
    status: Status,
    done: int,
    steps: int,
    waits: Sequence[str],
    stalls: Sequence[StallKind] = (),
    *,
    repeats: int = 0,
) -> Progress:
    """Return the progress of an entry whose steps are already counted; `repeats` of them were done before."""
    total = done if status is Status.COMPLETED else max(steps + repeats if steps else 0, done)
    return Progress(status, done, total, tuple(waits), tuple(dict.fromkeys(kind.words for kind in stalls)))


def _step(event: Event) -> object:
    detail = event.detail
    return detail.get("element") or detail.get("verb") or detail.get("gate")


def _lower(reason: str) -> str:
    return reason[:1].lower() + reason[1:]
