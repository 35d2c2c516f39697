"""Guards of the product that a negative control takes out, each by the one function that holds it.

A run without a guard must go red. A guard whose function is not there any more stops the run: a control that takes
nothing out would prove nothing.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.faults.plan import Engine
from verbworker.stores import sql


@dataclass(frozen=True, slots=True)
class Hole:
    """One more function that must go with a guard, because it would keep the promise by itself."""

    module: str
    name: str
    instead: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Guard:
    """One function of the product, by module and name, and what stands in its place."""

    module: str
    name: str
    instead: Callable[..., Any]
    # What a run without it must find, on which engine, under which faults (all when it names none).
    breaks: frozenset[str] = frozenset({"doubled"})
    engine: Engine = "zeebe"
    faults: frozenset[str] | None = None
    also: tuple[Hole, ...] = ()
    # How many seeds may be played until one finds it: whether a broker loses anything is chance.
    seeds: int = 1
    # Settings of the product without which the engine would hide that the guard is gone.
    settings: Mapping[str, str] = field(default_factory=dict)


class GuardMissing(Exception):
    """The function that a guard names does not exist."""


async def _nothing(*_: object, **__: object) -> None:
    return None


async def _none_swept(*_: object, **__: object) -> int:
    return 0


async def _admit_any_instance(_: object, job: Any, reserved: object, known: Any) -> Any:
    return None if known is None else dataclasses.replace(known, instance_key=job.process_instance_key)


async def _run_again(_: object, job: object, claim: Any, *__: object) -> Any:
    return claim


def _take_for_stored(*_: object) -> bool:
    return True


_query = sql.query
_PINNED = "AND frame.process_instance_key = ("


def _query_without_pin(store: str, name: str) -> str:
    text = _query(store, name)
    if (store, name) == ("frames", "pop_completed"):
        if _PINNED not in text:
            raise GuardMissing("frames.pop_completed does not compare the instance any more")
        return text.replace(_PINNED, "AND 0 < (")
    return text


GUARDS: dict[str, Guard] = {
    # Of two instances of one entry, the one that lost the pin never runs a verb. A transactional verb compares the pin
    # in its own commit as well, so that most effects stay single; the twins end one another, and that shows.
    "pin": Guard(
        "verbworker.work.starts.duplicate_instances",
        "InstanceIdentity.admit",
        _admit_any_instance,
        breaks=frozenset({"doubled", "stuck", "left"}),
        also=(Hole("verbworker.stores.jobs.frames", "query", _query_without_pin),),
    ),
    # A frame whose lease is over is taken and its job handed out again, though the engine never times it out.
    "sweep": Guard(
        "verbworker.work.upkeep.sweep",
        "Sweep.work",
        _none_swept,
        breaks=frozenset({"stuck", "left"}),
        faults=frozenset({"kill", "kill at start", "stop"}),
        settings={"VERBWORKER_ENGINE_TIMEOUT": "3600"},
    ),
    # A step that the broker hands out under a second job key is not run again.
    "step": Guard(
        "verbworker.work.jobs.step_guard",
        "StepGuard.admit",
        _run_again,
        # A plain kill loses nothing, and while a broker starts nothing is handed out that it could lose.
        faults=frozenset({"starve raft"}),
        seeds=4,
        also=(Hole("verbworker.work.jobs.step_guard", "StepGuard.check_in", _nothing),),
    ),
    # A worker that lost its lease cannot put its answer down. Who takes the refusal for a yes reports what was never
    # stored: on the embedded engine that is one more refusal, and its cases stand still.
    "fence": Guard(
        "verbworker.stores.jobs.frames",
        "_require_claim",
        _take_for_stored,
        breaks=frozenset({"doubled", "stuck"}),
        engine="embedded",
        faults=frozenset({"stop", "network"}),
    ),
}


def take_out(name: str) -> None:
    """Replace the functions of a guard; raise `GuardMissing` when one is not there."""
    guard = GUARDS[name]
    for hole in (Hole(guard.module, guard.name, guard.instead), *guard.also):
        _replace(name, hole)


def _replace(name: str, hole: Hole) -> None:
    try:
        place: Any = importlib.import_module(hole.module)
        *path, last = hole.name.split(".")
        for part in path:
            place = getattr(place, part)
        getattr(place, last)
    except (ImportError, AttributeError, ValueError) as error:
        raise GuardMissing(f"the guard {name!r} is {hole.module}:{hole.name}, which is not there: {error}") from error
    setattr(place, last, hole.instead)
