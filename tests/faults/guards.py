"""Guards of the product that a negative control takes out, each by the one function that holds it.

A run without a guard must go red. A guard whose function is not there any more stops the run: a control that takes
nothing out would prove nothing.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.faults.plan import Engine


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
    # Settings of the product without which the engine would hide that the guard is gone.
    settings: Mapping[str, str] = field(default_factory=dict)


class GuardMissing(Exception):
    """The function that a guard names does not exist."""


async def _nothing(*_: object, **__: object) -> None:
    return None


async def _yes(*_: object, **__: object) -> bool:
    return True


# An empty module is a placeholder for the function that holds the guard; taking it out stops the run.
GUARDS: dict[str, Guard] = {
    # Of two instances of one entry, the one that lost the pin never runs a verb.
    "pin": Guard("", "", _yes),
    # A frame whose lease is over is taken and its job handed out again, though the engine never times it out.
    "sweep": Guard(
        "",
        "",
        _nothing,
        breaks=frozenset({"stuck", "left"}),
        faults=frozenset({"kill", "kill at start", "stop"}),
        settings={"VERBWORKER_ENGINE_TIMEOUT": "3600"},
    ),
    # A step that the broker hands out under a second job key is not run again.
    "step": Guard("", "", _nothing, faults=frozenset({"starve raft", "kill broker"})),
    # A worker that lost its lease cannot put its answer down.
    "fence": Guard("", "", _yes, engine="embedded", faults=frozenset({"stop", "network"})),
}


def take_out(name: str) -> None:
    """Replace the function of a guard; raise `GuardMissing` when there is none of that name."""
    guard = GUARDS[name]
    if not guard.module:
        raise GuardMissing(f"the guard {name!r} names no function yet: fill in tests/faults/guards.py")
    try:
        place: Any = importlib.import_module(guard.module)
        *path, last = guard.name.split(".")
        for part in path:
            place = getattr(place, part)
        getattr(place, last)
    except (ImportError, AttributeError) as error:
        raise GuardMissing(f"the guard {name!r} is {guard.module}:{guard.name}, which is not there: {error}") from error
    setattr(place, last, guard.instead)
