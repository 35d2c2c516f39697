"""Shapes: what a value in a YAML file may be, declared once and checked with the position of every fault.

A shape reads a part of a document into a value. It records faults instead of raising them, so that one pass reports
every fault; what it returns for a faulty part must not be used. A shape also describes itself as JSON Schema, which is
made on request only.
"""

from collections.abc import Callable, Mapping
from typing import Any

from verblint.contracts.contract import Origin
from verblint.contracts.strict_yaml import ContractFault, Value
from verblint.contracts.syntax import MAX_TEXT, TEXT, Syntax
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
Read = Callable[[Part], Any]
JsonSchema = dict[str, Any]


@value
class Shape:
    """What a part may be: a function that reads it, and one that describes it."""

    read: Read
    schema: Callable[[], JsonSchema]

    def __call__(self, part: Part) -> Any:
        return self.read(part)


def _read_anything(part: Part) -> Value:
    return part.value


def _read_boolean(part: Part) -> Value:
    if not isinstance(part.value, bool):
        part.fault("must be true or false")
    return part.value


anything = Shape(_read_anything, dict)
boolean = Shape(_read_boolean, lambda: {"type": "boolean"})


def nullable(shape: Shape) -> Shape:
    """Accept null too: the field is there, but empty."""
    return Shape(
        lambda part: None if part.value is None else shape(part),
        lambda: {"anyOf": [shape.schema(), {"type": "null"}]},
    )


def text(syntax: Syntax = TEXT) -> Shape:
    """Accept a text with this syntax."""

    def read(part: Part) -> Value:
        if not isinstance(part.value, str):
            part.fault("must be a text")
        elif not syntax.fits(part.value):
            part.fault(f"{part.value[:100]!a} is not {syntax.description}")
        return part.value

    return Shape(read, lambda: {"type": "string", **_describe_syntax(syntax)})


def choice(*words: str) -> Shape:
    """Accept one of these words."""

    def read(part: Part) -> Value:
        if part.value not in words:
            part.fault(f"must be {', '.join(words[:-1])} or {words[-1]}" if words[1:] else f"must be {words[0]}")
        return part.value

    return Shape(read, lambda: {"enum": [str(word) for word in words]})


def one() -> Shape:
    """Accept the number 1."""

    def read(part: Part) -> None:
        # In Python, True and 1.0 equal 1.
        if type(part.value) is not int or part.value != 1:
            part.fault("must be 1")

    return Shape(read, lambda: {"const": 1})


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

    return Shape(
        read,
        lambda: {
            "type": "integer" if whole else "number",
            "exclusiveMinimum" if above else "minimum": least,
            "maximum": most,
        },
    )


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

    return Shape(read, lambda: {"type": "array", "items": shape.schema(), "uniqueItems": True})


def one_or_items(shape: Shape) -> Shape:
    """Accept one item, or a list of distinct ones."""
    several = items(shape)

    def read(part: Part) -> Any:
        return several(part) if isinstance(part.value, list) else shape(part)

    return Shape(read, lambda: {"anyOf": [shape.schema(), several.schema()]})


def either(plain: Shape, fields: Shape) -> Shape:
    """Accept a mapping with fields, or a plain value."""

    def read(part: Part) -> Any:
        return fields(part) if isinstance(part.value, dict) else plain(part)

    # The fields come first: who describes one shape only describes those.
    return Shape(read, lambda: {"anyOf": [fields.schema(), plain.schema()]})


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

    return Shape(
        read,
        lambda: {
            "type": "object",
            "propertyNames": _describe_syntax(names),
            "additionalProperties": shape.schema(),
        },
    )


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

    return Shape(
        read,
        lambda: {
            "type": "object",
            "properties": {name: shape.schema() for name, shape in fields.items()},
            "required": list(required),
            "additionalProperties": False,
        },
    )


def _describe_syntax(syntax: Syntax) -> JsonSchema:
    if syntax is TEXT:
        # JSON Schema's patterns cannot say that a dot matches a line break.
        return {"minLength": 1, "maxLength": MAX_TEXT}
    return {"pattern": f"^(?:{syntax.expression})$", "patternErrorMessage": f"must be {syntax.description}"}
