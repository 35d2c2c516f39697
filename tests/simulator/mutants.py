"""Named bugs: each takes one fix out of the product, and the simulator must find it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: what it breaks, and the patches that make it."""

    sentence: str
    patches: tuple[Callable[[], object], ...]


MUTANTS: dict[str, Mutant] = {}


@contextmanager
def applied(name: str | None) -> Iterator[None]:
    """Run with a bug, or without any."""
    with ExitStack() as stack:
        for make in () if name is None else MUTANTS[name].patches:
            stack.enter_context(make())  # type: ignore[arg-type]  # patch gives context managers of its own kind
        yield


_patch = patch
