"""Mapping: which parts of the case a task passes to its verb, and where the result goes.

Done here and not in the engine, which never reads the payload. Steps run in document order; a missing source removes
its target.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from verbworker.payload.merge import REMOVED, apply

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IoMapping:
    """The steps of one task: from the state to the request, and from the result to the state."""

    inputs: tuple[tuple[Path, Path], ...] = ()
    outputs: tuple[tuple[Path, Path], ...] = ()

    @classmethod
    def of(cls, steps: Iterable[tuple[str, str, str]]) -> "IoMapping":
        """Build a mapping from compiled steps: a direction, a source and a target, each with its root."""
        made = [(direction, _below_root(source), _below_root(target)) for direction, source, target in steps]
        return cls(
            tuple((source, target) for direction, source, target in made if direction == "input"),
            tuple((source, target) for direction, source, target in made if direction == "output"),
        )

    def request(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of the state that a verb receives."""
        return _copy_paths(self.inputs, state, {})

    def state_after(self, state: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state with a verb's result applied; `state` itself is unchanged."""
        return _copy_paths(self.outputs, result, state)


def _copy_paths(
    steps: Iterable[tuple[Path, Path]], source: Mapping[str, Any], onto: Mapping[str, Any]
) -> dict[str, Any]:
    made = dict(onto)
    for path, target in steps:
        made = apply(made, {target: _at(source, path)})
    return made


def _at(value: Any, path: Path) -> Any:
    for step in path:
        if not isinstance(value, Mapping) or step not in value:
            return REMOVED
        value = value[step]
    return value


def _below_root(path: str) -> Path:
    return tuple(path.split(".")[1:])
