"""Progress: how far an entry is, as one word or as a sentence, for people who never saw the process."""

from collections.abc import Sequence
from dataclasses import dataclass

from verbworker.runbook.event import Entry, Event, Kind, Open, Stall, StallKind, Status

_COARSE = {Status.EXECUTING: "in progress", Status.PARKED: "parked"}


@dataclass(frozen=True, slots=True)
class Progress:
    """How many steps are done, of how many on the usual way, and what is waited for."""

    status: Status
    done: int
    total: int
    waits: tuple[str, ...] = ()
    stalls: tuple[str, ...] = ()

    @property
    def coarse(self) -> str:
        """In progress, parked or done; how it ended is another question."""
        return _COARSE.get(self.status, "done")

    @property
    def detailed(self) -> str:
        """For example `3 of 5, awaiting reviewer`, or `3 of 5, stalled`."""
        so_far = f"{self.done} of {self.total}" if self.total else f"{self.done} steps"
        said = (self.status.value,) if self.status.is_final else (*map(_lower, self.waits), *self.stalls)
        return ", ".join((so_far, *said))

    def told(self, *, detailed: bool) -> str:
        """As the reader prefers it."""
        return self.detailed if detailed else self.coarse


def progress(
    entry: Entry, events: Sequence[Event], waits: Sequence[Open], stalls: Sequence[Stall] = (), *, steps: int
) -> Progress:
    """How far an entry is, by what happened and what it waits for; `steps` is the length of the usual way.

    A step that came back in a loop counts once. Who took another way than the usual one has no more than all.
    """
    done = len({_step(event) for event in events if event.kind in (Kind.STEP_COMPLETED, Kind.GATE_DECIDED)})
    return progress_of(entry.status, done, steps, [wait.reason for wait in waits], [stall.kind for stall in stalls])


def progress_of(
    status: Status, done: int, steps: int, waits: Sequence[str], stalls: Sequence[StallKind] = ()
) -> Progress:
    """The same of an entry whose steps were counted elsewhere."""
    total = done if status is Status.COMPLETED else max(steps, done)
    return Progress(status, done, total, tuple(waits), tuple(dict.fromkeys(kind.words for kind in stalls)))


def _step(event: Event) -> object:
    detail = event.detail
    return detail.get("element") or detail.get("verb") or detail.get("gate")


def _lower(reason: str) -> str:
    return reason[:1].lower() + reason[1:]
