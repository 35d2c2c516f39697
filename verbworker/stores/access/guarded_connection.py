"""The connection of a transactional verb: rejects statements that would end or alter its transaction."""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from verbworker.errors import PermanentContract, StoreUnavailable
from verbworker.stores.database import Connection

_CONTROL = frozenset(
    {
        *("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE TRANSACTION"),
        *("SET", "RESET", "DISCARD", "DEALLOCATE", "LISTEN", "UNLISTEN"),
    }
)
# Postgres tokens, as far as needed to find where statements start; quoted text starts none.
_TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | --[^\r\n]* )
  | (?P<comment> /\* )
  | (?P<end> ; )
  | [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
  | \$(?P<tag>(?:[^\W\d]\w*)?)\$ .*? \$(?P=tag)\$
  | (?P<word> [^\W\d][\w$]* )
  | .
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")


class GuardedConnection:
    """A connection inside the runtime's transaction; only the runtime commits it.

    `begin` begins the transaction before the first statement, if it has not begun.
    """

    def __init__(self, connection: Connection, begin: Callable[[], Awaitable[object]] | None = None) -> None:
        self._connection = connection
        self._begin = begin

    async def _ready(self, query: str) -> str:
        checked = _check(query)
        if self._begin is not None:
            await self._begin()
        return checked

    async def fetch(self, query: str, *args: object) -> list[Any]:
        """Run one statement and return its rows."""
        with _ours():
            return await self._connection.fetch(await self._ready(query), *args)

    async def fetchrow(self, query: str, *args: object) -> Any:
        """Run one statement and return its first row, or None."""
        with _ours():
            return await self._connection.fetchrow(await self._ready(query), *args)

    async def fetchval(self, query: str, *args: object) -> Any:
        """Run one statement and return the first value of its first row, or None."""
        with _ours():
            return await self._connection.fetchval(await self._ready(query), *args)

    async def execute(self, query: str, *args: object) -> str:
        """Run one statement and return Postgres' command tag."""
        with _ours():
            return await self._connection.execute(await self._ready(query), *args)

    async def executemany(self, query: str, args: Sequence[Sequence[object]]) -> None:
        """Run one statement once per row of arguments."""
        with _ours():
            await self._connection.executemany(await self._ready(query), args)


@contextmanager
def _ours() -> Iterator[None]:
    """Translate socket errors: here they come from our database, not from a verb's own sockets."""
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise StoreUnavailable(f"the database went away while a verb used it: {type(error).__name__}") from error


@lru_cache(maxsize=256)
def _check(query: str) -> str:
    for first, second in _beginnings(query):
        for words in (first, f"{first} {second}"):
            if words in _CONTROL:
                raise PermanentContract(
                    f"a verb may not run {words}: its transaction belongs to the runtime", code="TransactionControl"
                )
    return query


def _beginnings(query: str) -> Iterator[tuple[str, str]]:
    """Yield the first two tokens of every statement in a query, each empty unless it is a word."""
    words: list[str] = []
    at = 0
    while found := _TOKEN.match(query, at):
        at = found.end()
        if found["comment"]:
            at = _after_comment(query, at)
        elif found["end"]:
            yield _two(words)
            words = []
        elif not found["blank"]:
            words.append(found["word"] or "")
    yield _two(words)


def _two(words: list[str]) -> tuple[str, str]:
    first, second, *_ = (*words, "", "")
    return first.upper(), second.upper()


def _after_comment(query: str, at: int) -> int:
    """Return where a comment ends that started before `at`; comments nest."""
    depth = 1
    for mark in _COMMENT.finditer(query, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(query)
