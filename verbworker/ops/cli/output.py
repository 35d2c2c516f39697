"""How commands speak: a table for people, JSON for programs, and the one `asyncio.run`."""

import asyncio
import json
import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run one command's work to its end."""
    return asyncio.run(work)


def say(sentence: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{sentence}\n")


def complain(sentence: str) -> None:
    """Print one line for a person to read although the output goes elsewhere."""
    sys.stderr.write(f"verbworker: {sentence}\n")


def show(rows: Sequence[Mapping[str, object]], *, columns: Sequence[str], as_json: bool) -> None:
    """Print rows: JSON when asked, a table on a terminal, tab-separated lines in a pipe."""
    if as_json:
        say(json.dumps([dict(row) for row in rows], default=str, indent=2))
    elif sys.stdout.isatty():
        table = Table(*columns)
        for row in rows:
            table.add_row(*(_cell(row.get(column)) for column in columns))
        Console().print(table)
    else:
        for row in rows:
            say("\t".join(_cell(row.get(column)) for column in columns))


def _cell(value: object) -> str:
    return "" if value is None else str(value)
