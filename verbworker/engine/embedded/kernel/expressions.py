"""Expressions of a model as the kernel runs them: conditions, mappings, keys and times, over any variables.

Hollow models use the smallest part of this, which the linter enforces. Plain models may use all of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verblint.bpmn.binding import Binding
from verblint.bpmn.binding import Mapping as WrittenMapping
from verblint.feel.condition import FlagRead, Test
from verblint.feel.grammar import ConditionError, plain_comparison
from verblint.feel.plain_condition import PathValues, parse_plain, parse_value
from verbworker.job.job import ENTRY_ID

Variables = Mapping[str, Any]


class BeyondKernel(ValueError):
    """An expression that the kernel does not run; the message says what it is."""


@dataclass(frozen=True, slots=True)
class VariableMapping:
    """A mapping into a variable, or a path into one: from a path, or from a constant if that is empty."""

    target: tuple[str, ...]
    path: str
    constant: Any = None

    def read(self, variables: Variables) -> Any:
        """Return the value to map; null where the path leads nowhere, as in FEEL."""
        return PathValues(variables)[self.path] if self.path else self.constant

    def put(self, value: Any, into: Variables) -> Any:
        """Return the target variable with the value at its place; `into` holds what the variable is so far."""
        return _put(value, self.target[1:], into.get(self.target[0]))


def _put(value: Any, path: tuple[str, ...], into: object) -> Any:
    if not path:
        return value
    if into is not None and not isinstance(into, Mapping):
        return None  # as the broker has it: a text or a number has no parts
    known = into or {}
    return {**known, path[0]: _put(value, path[1:], known.get(path[0]))}


def read_condition(text: str) -> Test:
    """Return a flow's condition; raises `BeyondKernel`."""
    plain = plain_comparison(text)
    if plain is not None:
        return plain
    try:
        return parse_plain(text)
    except ConditionError as error:
        raise BeyondKernel(error.message) from error


def read_path(text: str) -> str:
    """Return the variable, or the path into one, that an expression consists of; raises `BeyondKernel`."""
    try:
        found = parse_value(text)
    except ConditionError as error:
        raise BeyondKernel(f"computes {text}") from error
    if not isinstance(found, FlagRead):
        raise BeyondKernel(f"has the constant {text}")
    return found.name


def read_mappings(binding: Binding, direction: str) -> tuple[VariableMapping, ...]:
    """Return the mappings of an element in one direction, in their order; raises `BeyondKernel`."""
    return tuple(_read_mapping(one) for one in binding.mappings if one.direction == direction and not _is_woven(one))


def _is_woven(mapping: WrittenMapping) -> bool:
    """Return whether weaving added it: it keeps the variables of a native user task out, and here they are none."""
    return mapping.target == ENTRY_ID


def _read_mapping(mapping: WrittenMapping) -> VariableMapping:
    source, target = mapping.source, tuple(mapping.target.split("."))
    if not all(name.isidentifier() and name.isascii() for name in target):
        raise BeyondKernel(f"maps into {mapping.target}")
    if source is None or not source.is_feel:
        return VariableMapping(target, "", "" if source is None else source.text)
    try:
        found = parse_value(source.text)
    except ConditionError as error:
        raise BeyondKernel(f"maps {source.text} into {mapping.target}") from error
    if isinstance(found, FlagRead):
        return VariableMapping(target, found.name)
    return VariableMapping(target, "", found.value)
