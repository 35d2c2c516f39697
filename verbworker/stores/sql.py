"""The SQL that ships with verbworker: where it lies, and its named queries."""

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

_BLOCK = re.compile(r"^-- name: (?P<name>[a-z_]+)$", re.MULTILINE)


def root() -> Traversable:
    """The copy shipped in a wheel, or the repository's `sql/` in a checkout."""
    shipped = files("verbworker") / "_sql"
    return shipped if shipped.is_dir() else Path(__file__).parents[2] / "sql"


@cache
def queries(store: str) -> dict[str, str]:
    """The named queries of one store, as written in `sql/queries/<store>.sql`."""
    text = (root() / "queries" / f"{store}.sql").read_text(encoding="utf-8")
    parts = _BLOCK.split(text)[1:]
    return {name: body.strip().rstrip(";") for name, body in zip(parts[::2], parts[1::2], strict=True)}


def query(store: str, name: str) -> str:
    """One named query. A name that is not in the file is a bug, so it raises `KeyError`."""
    return queries(store)[name]


def stores() -> list[str]:
    """The stores that have queries."""
    return sorted(entry.name.removesuffix(".sql") for entry in (root() / "queries").iterdir())


def migrations() -> list[tuple[str, str]]:
    """Every migration as (name, text), in the order in which they apply."""
    entries = (entry for entry in (root() / "migrations").iterdir() if entry.name.endswith(".sql"))
    return sorted((entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8")) for entry in entries)
