"""Output of commands: a table for people, JSON for programs, and the only `asyncio.run`."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from verbworker.errors import VerbworkerError, leaves

T = TypeVar("T")

# A cell may hold text from outside: it must neither break a line nor control a terminal.
_CONTROL = dict.fromkeys((*range(32), *range(127, 160)), " ")
_STYLES = {"ok": "green", "warn": "yellow", "wrong": "bold red"}


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run one command's work to its end. A group of our own errors is raised as the first of them."""
    try:
        return asyncio.run(work)
    except BaseExceptionGroup as group:
        errors = list(leaves(group))
        if all(isinstance(error, VerbworkerError) for error in errors):
            raise errors[0] from group
        raise


def say(sentence: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{sentence}\n")


def tell(sentence: str) -> None:
    """Print one line immediately, also into a pipe."""
    say(sentence)
    sys.stdout.flush()


def complain(sentence: str) -> None:
    """Print one line to standard error, for a person to read while the output is redirected."""
    sys.stderr.write(f"verbworker: {sentence}\n")


def print_json(value: object) -> None:
    """Print a value as JSON, for programs."""
    say(json.dumps(value, default=_plain, indent=2))


def answer(sentence: str, details: Mapping[str, object], *, as_json: bool) -> None:
    """Print the result: a sentence for people, or all details for programs."""
    if as_json:
        print_json(dict(details))
    else:
        say(sentence)


def show(rows: Sequence[Mapping[str, object]], *, columns: Sequence[str], as_json: bool) -> None:
    """Print rows: JSON if requested, a table on a terminal, tab-separated lines in a pipe."""
    if as_json:
        print_json([dict(row) for row in rows])
    elif sys.stdout.isatty():
        _show_table(rows, columns)
    else:
        for row in rows:
            say("\t".join(_cell(row.get(column)) for column in columns))


@contextmanager
def busy(words: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner on a terminal while the block runs; show nothing in a pipe. The callable changes the text.

    The spinner is on standard error, so the command's output is the same either way.
    """
    # A command started by another command has the terminal, but no person who types.
    if not (sys.stderr.isatty() and sys.stdin.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(words), spinner="dots") as moving:
        yield lambda changed: moving.update(escape(changed))


def _show_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        # Folded, not truncated: part of an id is of no use.
        table.add_column(column.replace("_", " ").capitalize(), overflow="fold")
    for row in rows:
        # As text, not as markup: brackets stay as they are.
        cells = (_cell(row.get(column)) for column in columns)
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in cells))
    Console().print(table)


def moment(at: datetime) -> str:
    """Format a time to the millisecond."""
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"


def _cell(value: object) -> str:
    return "" if value is None else str(value).translate(_CONTROL)


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
