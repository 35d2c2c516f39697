"""Guards of the product that a negative control takes out, each by the one function that holds it.

A run without a guard must go red. A guard whose function is not there any more stops the run: a control that takes
nothing out would prove nothing.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Guard:
    """One function of the product, by module and name, and what stands in its place."""

    module: str
    name: str
    instead: Callable[..., Any]


class GuardMissing(Exception):
    """The function that a guard names does not exist."""


async def _nothing(*_: object, **__: object) -> None:
    return None


async def _yes(*_: object, **__: object) -> bool:
    return True


# The lead names the functions: an empty module is a placeholder, and using it stops the run.
GUARDS: dict[str, Guard] = {
    "pin": Guard("", "", _yes),
    "sweep": Guard("", "", _nothing),
    "step": Guard("", "", _nothing),
    "fence": Guard("", "", _yes),
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
