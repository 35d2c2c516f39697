"""Output of commands: a table for people, JSON for programs, and the only `asyncio.run`."""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from verbworker.contract.text import escape_hidden
from verbworker.errors import VerbworkerError, leaves

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

COUNTED = 1000
"""Rows that a command reads beyond the limit of a list, to say how many more there are."""
_LONGEST_ID = 40  # characters: a UUID has 36, an engine's key at most 19
# Commands accept the beginnings of these; other ids are whole, as people pass them on to other systems.
_OUR_IDS = ("entry_id", "token_id", "letter_id", "incident")
_ID_LENGTH = 36  # characters of a UUID; an incident without one is named by a key, which is not cut
_READABLE = 10  # characters: a narrower column of words is a column of syllables
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$")
_STYLES = {"ok": "green", "warn": "yellow", "wrong": "bold red"}


def run(work: Coroutine[Any, Any, T], runner: Callable[[Coroutine[Any, Any, T]], T] = asyncio.run) -> T:
    """Run one command's work to its end. A group of our own errors is raised as the first of them."""
    try:
        return runner(work)
    except BaseExceptionGroup as group:
        errors = list(leaves(group))
        if all(isinstance(error, VerbworkerError) for error in errors):
            raise errors[0] from group
        raise


def say(sentence: str) -> None:
    """Print one line. It may hold text from outside, which must not control a terminal."""
    sys.stdout.write(f"{escape_hidden(sentence)}\n")


def tell(sentence: str) -> None:
    """Print one line immediately, also into a pipe."""
    say(sentence)
    sys.stdout.flush()


def complain(sentence: str) -> None:
    """Print one line to standard error, for a person to read while the output is redirected."""
    sys.stderr.write(f"verbworker: {escape_hidden(sentence)}\n")


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
    """Print rows: JSON if requested, a table on a terminal, tab-separated lines with a header in a pipe.

    A table shows only the beginning of an id, as much as is unique in it; every command accepts that. On a terminal
    that is too narrow for the columns, the rows are printed one below the other.
    """
    if as_json:
        print_json([dict(row) for row in rows])
    elif sys.stdout.isatty():
        _show_table(rows, columns)
    else:
        say("\t".join(columns))
        for row in rows:
            say("\t".join(_cell(row.get(column)) for column in columns))


def show_first(rows: Sequence[T], limit: int) -> Sequence[T]:
    """Return the first rows, and print on standard error how many more there are.

    Read `limit + COUNTED` rows: a reader wants to know how long a list is, not to see every row.
    """
    if more := count_more(len(rows), limit):
        complain(f"there are {more}; to see them: --limit {len(rows)}")
    return rows[:limit]


def count_more(read: int, limit: int) -> str:
    """Return how many rows are left out if `limit` of those read are shown, such as `2 more`; empty if none.

    Read `limit + COUNTED` rows for that.
    """
    more = read - limit
    if more <= 0:
        return ""
    return f"{more} more" if more < COUNTED else f"at least {more} more"


def shorten(ids: Collection[str]) -> dict[str, str]:
    """Return the shortest beginning of each id that distinguishes it from the others."""
    for length in (8, 13, 18, 23):
        short = {one: one[:length] for one in ids}
        if len(set(short.values())) == len(short):
            return short
    return {one: one for one in ids}


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

    ours = [column for column in columns if column in _OUR_IDS]
    known = {str(row[column]) for row in rows for column in ours if row.get(column) is not None}
    short = shorten({one for one in known if len(one) == _ID_LENGTH})
    cells = [
        [short.get(cell, cell) if column in ours else cell for column, cell in zip(columns, line, strict=True)]
        # A microsecond helps nobody who reads a table, and a time without a space is broken anywhere.
        for line in ([_TIME.sub(r"\1 \2Z", _cell(row.get(column))) for column in columns] for row in rows)
    ]
    titles = [column.replace("_", " ").capitalize() for column in columns]
    # Folded, not truncated; but an id in two lines cannot be copied.
    ids = [
        max(
            (len(line[at]) for row, line in zip(rows, cells, strict=True) if _is_id(column, row.get(column))), default=0
        )
        for at, column in enumerate(columns)
    ]
    console = Console()
    if cells and _needed_width(titles, cells, ids) > console.width:
        _show_records(console, titles, cells)
        return
    table = Table()
    for title, widest in zip(titles, ids, strict=True):
        table.add_column(title, overflow="fold", min_width=widest or None)
    for line in cells:
        # As text, not as markup: brackets stay as they are.
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in line))
    console.print(table)


def _needed_width(titles: Sequence[str], cells: Sequence[Sequence[str]], ids: Sequence[int]) -> int:
    """Return how wide a table must be so that people can read it; a narrower one is cut at the right."""
    longest = [max(len(title), *(len(line[at]) for line in cells)) for at, title in enumerate(titles)]
    widths = [max(whole, min(most, _READABLE)) for whole, most in zip(ids, longest, strict=True)]
    return sum(widths) + 3 * len(widths) + 1  # two spaces and a border each, and the last border


def _show_records(console: "Console", titles: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print rows one below the other, a line for each cell that is not empty."""
    from rich.table import Table
    from rich.text import Text

    for line in cells:
        record = Table.grid(padding=(0, 2))
        record.add_column(no_wrap=True)
        record.add_column(overflow="fold")
        for title, cell in zip(titles, line, strict=True):
            if cell:
                record.add_row(title, Text(cell, style=_STYLES.get(cell, "")))
        console.print(record, "")


def _is_id(column: str, value: object) -> bool:
    """Return whether a cell must stay in one line: a person copies it. Long ones of other systems are folded."""
    is_named = column.endswith(("_id", "_key")) or column in _OUR_IDS
    return isinstance(value, UUID) or (is_named and isinstance(value, int | str) and len(str(value)) <= _LONGEST_ID)


def moment(at: datetime) -> str:
    """Format a time to the millisecond."""
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"


def _cell(value: object) -> str:
    if isinstance(value, dict | list | tuple):
        return escape_hidden(json.dumps(value, default=_plain, ensure_ascii=False), has_lines=False)
    # A cell must not break its line either.
    return "" if value is None else escape_hidden(" ".join(re.split(r"[\r\n\t]", _plain(value))), has_lines=False)


def _plain(value: object) -> str:
    match value:
        case bytes():
            return value.hex()
        case datetime():
            return value.isoformat().replace("+00:00", "Z")  # RFC 3339, as the HTTP API has it
    return str(value)
