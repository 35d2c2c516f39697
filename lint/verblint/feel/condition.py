"""Conditions: the small part of FEEL that a hollow model may branch on, with the engine's logic.

    condition  = "=" or
    or         = and { "or" and }
    and        = test { "and" test }
    test       = "(" or ")" | "not" "(" or ")" | FLAG [ comparison ]
    comparison = ("=" | "!=") LITERAL | ("<" | "<=" | ">" | ">=") INTEGER | "in" "(" LIST ")"

A flag is `orch_` and lower-case words. A literal is a string without escapes, an integer, true, false or null. A list
has strings only or integers only. A flag without a comparison is parsed, because its fix needs a place, and is reported
by its own rule. `verblint.feel.grammar` parses conditions and rejects everything else.

`verblint.feel.plain_condition` parses the conditions of plain models, where a name may be any variable or a path into
one, and may be compared with another.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import ge, gt, le, lt

from verblint.startup import TYPE_CHECKING
from verblint.startup.value import value

if TYPE_CHECKING:
    from typing import TypeGuard

Value = bool | int | float | str | None
Truth = bool | None

_ORDERS: Mapping[str, Callable[..., bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


@value(guarded=False)
class FlagRead:
    """A flag by name, with its position in the text."""

    name: str
    start: int
    end: int


@value(guarded=False)
class Literal:
    """A constant, with its position in the text."""

    value: Value
    start: int
    end: int


@value(guarded=False)
class BareFlag:
    """A flag alone: true or false if it is a boolean, otherwise an incident."""

    flag: FlagRead


@value(guarded=False)
class Comparison:
    """A flag compared with a literal; the operator is one of = != < <= > >=."""

    flag: FlagRead
    operator: str
    literal: Literal


@value(guarded=False)
class Membership:
    """A flag tested against a list of literals of one type."""

    flag: FlagRead
    literals: tuple[Literal, ...]


@value(guarded=False)
class Relation:
    """A variable of a plain model compared with another; hollow models have none."""

    left: FlagRead
    operator: str
    right: FlagRead


@value(guarded=False)
class Not:
    """The negation of a test."""

    test: "Test"


@value(guarded=False)
class And:
    """All of two or more tests."""

    tests: tuple["Test", ...]


@value(guarded=False)
class Or:
    """Any of two or more tests."""

    tests: tuple["Test", ...]


Test = BareFlag | Comparison | Membership | Relation | Not | And | Or


def walk(test: Test) -> Iterator[Test]:
    """Yield the test and every test inside it, in order."""
    yield test
    match test:
        case Not(inner):
            yield from walk(inner)
        case And(tests) | Or(tests):
            for part in tests:
                yield from walk(part)
        case _:
            return


def flags(test: Test) -> Iterator[FlagRead]:
    """Return every use of a flag, in order."""
    return (part.flag for part in walk(test) if isinstance(part, BareFlag | Comparison | Membership))


def variables(test: Test) -> frozenset[str]:
    """Return the names of the flags a test reads."""
    return frozenset(flag.name for flag in flags(test))


def evaluate(test: Test, values: Mapping[str, Value]) -> Truth:
    """Return the result, or None where the engine gets null and raises an incident.

    A flag that is not set is null. Null equals only null; comparing different types gives null.
    """
    match test:
        case BareFlag(flag):
            value = values.get(flag.name)
            return value if isinstance(value, bool) else None
        case Comparison(flag, operator, literal):
            return _compare(values.get(flag.name), operator, literal.value)
        case Membership(flag, literals):
            value = values.get(flag.name)
            return _any(_equal(value, literal.value) for literal in literals)
        case Relation(left, operator, right):
            return _compare(values.get(left.name), operator, values.get(right.name))
        case Not(inner):
            return _opposite(evaluate(inner, values))
        case And(tests):
            return _opposite(_any(_opposite(evaluate(part, values)) for part in tests))
        case _:
            return _any(evaluate(part, values) for part in test.tests)


def _compare(value: Value, operator: str, literal: Value) -> Truth:
    if operator == "=":
        return _equal(value, literal)
    if operator == "!=":
        return _opposite(_equal(value, literal))
    if _is_number(value) and _is_number(literal):
        return _ORDERS[operator](value, literal)
    if isinstance(value, str) and isinstance(literal, str):
        return _ORDERS[operator](value, literal)
    return None


def _equal(value: Value, literal: Value) -> Truth:
    if value is None or literal is None:
        return value is literal
    return value == literal if type(value) is type(literal) or (_is_number(value) and _is_number(literal)) else None


def _is_number(value: Value) -> "TypeGuard[int]":
    # A model contains only integers, but a variable may be any number; the engine compares numeric values.
    return isinstance(value, int | float) and not isinstance(value, bool)


def _opposite(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _any(truths: Iterator[Truth]) -> Truth:
    """Compute a three-valued or: true if any is true, otherwise None if any is None."""
    unknown = False
    for truth in truths:
        if truth:
            return True
        unknown = unknown or truth is None
    return None if unknown else False
