"""The SQL that ships with verbworker: its location and its named queries."""

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

_BLOCK = re.compile(r"^-- name: (?P<name>[a-z_]+)$", re.MULTILINE)
_EXTENDS = re.compile(r"-- extends: (?P<name>[a-z_]+)\n(?P<why>(?:-- .*\n)+)(?P<parts>(?s:.*))")


def root() -> Traversable:
    """Return the SQL folder: the wheel's own copy, or `sql/` of the checkout."""
    shipped = files("verbworker") / "_sql"
    return shipped if shipped.is_dir() else Path(__file__).parents[2] / "sql"


@cache
def queries(store: str) -> dict[str, str]:
    """Return the named queries of one store, as written in `sql/queries/<store>.sql`.

    One that begins with `-- extends: other` adds its parts to the WITH clause of the query `other`, which precedes it.
    """
    text = (root() / "queries" / f"{store}.sql").read_text(encoding="utf-8")
    parts = _BLOCK.split(text)[1:]
    found: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        found[name] = body.strip().rstrip(";")
        if more := _EXTENDS.match(found[name]):
            clause, select = found[more["name"]].rsplit("\n)\nSELECT ", 1)
            found[name] = f"{more['why']}{clause}\n),\n{more['parts']}\nSELECT {select}"
    return found


def query(store: str, name: str) -> str:
    """Return one named query. An unknown name is a bug and raises `KeyError`."""
    return queries(store)[name]


def stores() -> list[str]:
    """Return the stores that have queries."""
    return sorted(entry.name.removesuffix(".sql") for entry in (root() / "queries").iterdir())


def migrations() -> list[tuple[str, str]]:
    """Return every migration as (name, text), in the order of application."""
    entries = (entry for entry in (root() / "migrations").iterdir() if entry.name.endswith(".sql"))
    return sorted((entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8")) for entry in entries)


def roles() -> str:
    """Return the statements that create the roles and grant what each may do."""
    return (root() / "roles.sql").read_text(encoding="utf-8")
