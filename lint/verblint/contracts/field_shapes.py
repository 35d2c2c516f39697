"""Shapes: what a value in a YAML file may be, declared once and checked with the position of every fault.

A shape is a function from a part of a document to a value. It records faults instead of raising them, so that one pass
reports every fault; what it returns for a faulty part must not be used.
"""

from collections.abc import Callable, Mapping
from typing import Any

from verblint.contracts.contract import Origin
from verblint.contracts.strict_yaml import ContractFault, Value
from verblint.contracts.syntax import TEXT, Syntax
from verblint.names import nearest
from verblint.startup.value import value


@value
class Part:
    """A part of a document: its value, its place, and the list that its faults are added to."""

    value: Value
    origin: Origin
    faults: list[ContractFault]

    def child(self, step: str | int, value: Value) -> "Part":
        """Return the part at a key or an index."""
        return Part(value, self.origin.at(step), self.faults)

    def fault(self, message: str, *steps: str | int) -> None:
        """Record a fault in this part, or in one below it."""
        self.faults.append(ContractFault.at(self.origin.at(*steps), message))


# What a shape returns depends on the shape; the values that are made of it have types.
Shape = Callable[[Part], Any]


def anything(part: Part) -> Value:
    """Accept any value."""
    return part.value


def boolean(part: Part) -> Value:
    """Accept true and false."""
    if not isinstance(part.value, bool):
        part.fault("must be true or false")
    return part.value


def nullable(shape: Shape) -> Shape:
    """Accept null too: the field is there, but empty."""
    return lambda part: None if part.value is None else shape(part)


def text(syntax: Syntax = TEXT) -> Shape:
    """Accept a text with this syntax."""

    def read(part: Part) -> Value:
        if not isinstance(part.value, str):
            part.fault("must be a text")
        elif not syntax.fits(part.value):
            part.fault(f"{part.value[:100]!a} is not {syntax.description}")
        return part.value

    return read


def choice(*words: str) -> Shape:
    """Accept one of these words."""

    def read(part: Part) -> Value:
        if part.value not in words:
            part.fault(f"must be {', '.join(words[:-1])} or {words[-1]}")
        return part.value

    return read


def number(least: int, most: int, *, above: bool = False, whole: bool = False) -> Shape:
    """Accept a number in this range; with `above`, the minimum itself is excluded."""

    def read(part: Part) -> Value:
        given = part.value
        if isinstance(given, bool) or not isinstance(given, int if whole else int | float):
            part.fault("must be an integer" if whole else "must be a number")
        elif above and given <= least:
            part.fault(f"must be greater than {least}")
        elif not least <= given <= most:
            part.fault(f"must be between {least} and {most}")
        return given

    return read


def items(shape: Shape) -> Shape:
    """Accept a list of distinct items of one shape."""

    def read(part: Part) -> tuple[Any, ...]:
        if not isinstance(part.value, list):
            part.fault("must be a list")
            return ()
        for index, item in enumerate(part.value):
            if isinstance(item, str) and item in part.value[:index]:
                part.fault(f"{item} is listed twice", index)
        return tuple(shape(part.child(index, item)) for index, item in enumerate(part.value))

    return read


def mapping(names: Syntax, shape: Shape) -> Shape:
    """Accept a mapping from names of the author's choice to values of one shape."""

    def read(part: Part) -> dict[str, Any]:
        if not isinstance(part.value, dict):
            part.fault("must be a mapping")
            return {}
        for name in part.value:
            if not names.fits(name):
                part.fault(f"{name[:100]!a} is not {names.description}", name)
        return {name: shape(part.child(name, value)) for name, value in part.value.items()}

    return read


def record(make: Callable[..., Any], required: Mapping[str, Shape], optional: Mapping[str, Shape]) -> Shape:
    """Accept a mapping with these fields, and make a value of them; None if there is a fault."""
    fields = {**required, **optional}

    def read(part: Part) -> Any:
        if not isinstance(part.value, dict):
            part.fault("must be a mapping")
            return None
        before = len(part.faults)
        values = {}
        for name, given in part.value.items():
            if name in fields:
                values[name] = fields[name](part.child(name, given))
            else:
                # A typo must not silently disable a check.
                near = nearest(name, sorted(fields))
                part.fault(f"unknown field; did you mean {near}?" if near else "unknown field", name)
        for name in required:
            if name not in part.value:
                part.fault("is missing", name)
        return make(**values) if len(part.faults) == before else None

    return read
