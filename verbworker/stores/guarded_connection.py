"""The connection a transactional verb gets: every statement but those that would end or bend its transaction."""

import re
from collections.abc import Iterator, Sequence
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
# Postgres' own tokens, as far as they tell where a statement begins: what is quoted begins none.
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
    """A connection inside the runtime's transaction: the runtime alone commits it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch(self, query: str, *args: object) -> list[Any]:
        """The rows of one statement."""
        with _ours():
            return await self._connection.fetch(_checked(query), *args)

    async def fetchrow(self, query: str, *args: object) -> Any:
        """The first row of one statement, or None."""
        with _ours():
            return await self._connection.fetchrow(_checked(query), *args)

    async def fetchval(self, query: str, *args: object) -> Any:
        """The first value of the first row, or None."""
        with _ours():
            return await self._connection.fetchval(_checked(query), *args)

    async def execute(self, query: str, *args: object) -> str:
        """Run one statement and return Postgres' tag for it."""
        with _ours():
            return await self._connection.execute(_checked(query), *args)

    async def executemany(self, query: str, args: Sequence[Sequence[object]]) -> None:
        """Run one statement once per row of arguments."""
        with _ours():
            await self._connection.executemany(_checked(query), args)


@contextmanager
def _ours() -> Iterator[None]:
    """A socket that breaks here is our database's, whatever a verb's own sockets do."""
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise StoreUnavailable(f"the database went away while a verb used it: {type(error).__name__}") from error


@lru_cache(maxsize=256)
def _checked(query: str) -> str:
    for first, second in _beginnings(query):
        for said in (first, f"{first} {second}"):
            if said in _CONTROL:
                raise PermanentContract(
                    f"a verb may not run {said}: its transaction belongs to the runtime", code="TransactionControl"
                )
    return query


def _beginnings(query: str) -> Iterator[tuple[str, str]]:
    """The first two tokens of every statement in a query, as far as they are words."""
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
    """Where a comment ends that began before `at`; comments lie inside comments."""
    depth = 1
    for mark in _COMMENT.finditer(query, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(query)
