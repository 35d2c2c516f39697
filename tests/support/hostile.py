"""Random values for canonical JSON: ordinary ones, edge cases, and things that have no place in JSON."""

import struct
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from random import Random
from typing import Any
from uuid import UUID

import orjson


class Text(str):
    """A str that is not exactly str."""


class Number(int):
    """An int that is not exactly int."""


class Fraction(float):
    """A float that is not exactly float."""


class Colour(Enum):
    """An enum that orjson would write as its value."""

    RED = "red"


class Level(IntEnum):
    """An enum that is an int."""

    LOW = 1


class Word(StrEnum):
    """An enum that is a str."""

    YES = "yes"


@dataclass
class Record:
    """A dataclass that orjson would write as an object."""

    field: int = 1


Pair = namedtuple("Pair", "left right")

_FOREIGN: tuple[Any, ...] = (
    Text("t"),
    Number(7),
    Fraction(1.5),
    Colour.RED,
    Level.LOW,
    Word.YES,
    Record(),
    Pair(1, 2),
    OrderedDict(b=1, a=2),
    UUID(int=1),
    datetime(2026, 1, 2, tzinfo=UTC),
    date(2026, 1, 2),
    Decimal("1.5"),
    b"bytes",
    bytearray(b"x"),
    {1, 2},
    range(3),
    complex(1, 2),
    orjson.Fragment(b'{"b": 1.50}'),
    object(),
    {1: "a"},
    {None: 1},
    {True: 1},
    {Text("k"): 1, "j": 2},
    {Word.YES: 1},
)
_NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2**53 - 1, 1 - 2**53, 2**53, -(2**53), 2**63, 2**64, 10**400, 10**5000),
    *(0.0, -0.0, 1.0, 1.5, -2.5, 1e15, 1e16, 1e17, 1e20, 1e21, 1e22, 1e-4, 1e-5, 1e-6, 1e-7, 5e-324),
    *(1.7976931348623157e308, 123456789012345680.0, 9007199254740993.0, 0.1 + 0.2, 333333333.33333329),
    *(float("nan"), float("inf"), float("-inf")),
)
_CHARACTERS = '\x00\x01\x08\t\n\x0b\x0c\r\x1f "\\/:,.[]{}019eE+-azAZ\x7f\x80\x9fü߿ࠀ\u2028\ud7ff\ue000\ufeff\uffff'
_ASTRAL = "\U00010000\U0001f600\U0010ffff"


def text(chance: Random) -> str:
    """A short string; now and then with characters beyond the BMP, seldom with half a pair of surrogates."""
    letters = _CHARACTERS + _ASTRAL if chance.random() < 0.1 else _CHARACTERS
    letters = letters + "\ud800\udfff" if chance.random() < 0.01 else letters
    return "".join(chance.choices(letters, k=chance.randrange(8)))


def number(chance: Random) -> Any:
    """An integer or a float of any size; mostly a harmless one."""
    match chance.randrange(8):
        case 0:
            return chance.choice(_NUMBERS)
        case 1:
            return struct.unpack("d", chance.randbytes(8))[0]
        case 2:
            return round(chance.uniform(-1000, 1000), chance.randrange(4))
        case 3:
            return chance.randrange(-(2**54), 2**54)
        case _:
            return chance.randrange(-1000, 1000)


def value(chance: Random, depth: int = 4) -> Any:
    """Any value at most `depth` containers deep, with now and then a guest JSON does not know."""
    kind = chance.randrange(100)
    if kind == 0:
        return chance.choice(_FOREIGN)
    if depth and kind < 30:
        return {text(chance): value(chance, depth - 1) for _ in range(chance.randrange(5))}
    if depth and kind < 48:
        return [value(chance, depth - 1) for _ in range(chance.randrange(5))]
    if depth and kind < 50:
        return tuple(value(chance, depth - 1) for _ in range(chance.randrange(3)))
    if kind < 60:
        return number(chance)
    if kind < 70:
        return chance.choice((None, True, False))
    return text(chance)


def document(chance: Random) -> Any:
    """An object or a list with a few values of every kind."""
    inside = [value(chance) for _ in range(chance.randrange(1, 5))]
    return inside if chance.random() < 0.3 else {text(chance): part for part in inside}


def nested(depth: int, core: Any = 1) -> Any:
    """`core` inside `depth` lists and objects in turn."""
    for level in range(depth):
        core = [core] if level % 2 else {"k": core}
    return core
