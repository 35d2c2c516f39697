"""Rows of the database as values, and values as the arrays that statements read."""

from collections.abc import Sequence
from typing import TypeVar

from verbworker.stores.database import Row

Value = TypeVar("Value")


def value_of(kind: type[Value], row: Row, /, **given: object) -> Value:
    """Return a row as a dataclass: each column fills the field of its name, unless the field is given."""
    names = vars(kind)["__dataclass_fields__"]  # `fields` would build a tuple for every row
    return kind(**{name: value for name, value in row.items() if name in names} | given)


def columns(rows: Sequence[Sequence[object]], width: int) -> list[list[object]]:
    """Turn rows into columns, for statements that read their rows with `unnest`."""
    return [[row[index] for row in rows] for index in range(width)]
