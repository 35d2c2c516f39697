"""How commands speak: a table for people, JSON for programs, and the one `asyncio.run`."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import typer

from verbworker.errors import VerbworkerError, leaves

T = TypeVar("T")

# What a cell holds may come from outside: it must neither break a line nor steer a terminal.
_CONTROL = dict.fromkeys((*range(32), *range(127, 160)), " ")
_STYLES = {"ok": "green", "warn": "yellow", "wrong": "bold red"}


LONGEST = 3_650 * 86_400.0
"""Seconds that an option may ask for: ten years, so that no clock overflows."""


def not_blank(text: str) -> str:
    """Refuse an option that is given without a word in it."""
    if not text.strip():
        raise typer.BadParameter("it is blank; say why in a few words")
    return text


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


def complain(sentence: str) -> None:
    """Print one line for a person to read although the output goes elsewhere."""
    sys.stderr.write(f"verbworker: {sentence}\n")


def print_json(told: object) -> None:
    """Print something for programs."""
    say(json.dumps(told, default=_plain, indent=2))


def answer(sentence: str, told: Mapping[str, object], *, as_json: bool) -> None:
    """Print what was done: a sentence for people, or all there is to know of it for programs."""
    if as_json:
        print_json(dict(told))
    else:
        say(sentence)


def show(rows: Sequence[Mapping[str, object]], *, columns: Sequence[str], as_json: bool) -> None:
    """Print rows: JSON when asked, a table on a terminal, tab-separated lines in a pipe."""
    if as_json:
        print_json([dict(row) for row in rows])
    elif sys.stdout.isatty():
        _show_table(rows, columns)
    else:
        for row in rows:
            say("\t".join(_cell(row.get(column)) for column in columns))


@contextmanager
def busy(words: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that something goes on, until it is over; in a pipe, nothing. The callable changes the words.

    It moves on standard error, so what the command prints is the same either way.
    """
    # A command that another one started has the terminal, but nobody who types.
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
        # Folded, not cut off: an id that is shown in part is of no use.
        table.add_column(column, overflow="fold")
    for row in rows:
        # As text, not as markup: brackets stay what they are.
        cells = (_cell(row.get(column)) for column in columns)
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in cells))
    Console().print(table)


def _cell(value: object) -> str:
    return "" if value is None else str(value).translate(_CONTROL)


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
