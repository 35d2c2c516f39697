"""What the doctor asks of a role is what the shipped statements do, no less and no more."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
from asyncpg import PostgresError

from tests.support.clinic import grants
from tests.support.databases import execute, plain
from tests.support.postgres import run_apart
from verbworker.stores import _sql
from verbworker.stores.checkup import NEEDS

DOES = (
    (re.compile(r"\bINSERT INTO\s+"), "INSERT"),
    (re.compile(r"(?<!FOR )(?<!NO KEY )\bUPDATE\s+"), "UPDATE"),
    (re.compile(r"\bDELETE FROM\s+"), "DELETE"),
    (re.compile(r"(?:(?<!DELETE )\bFROM|\bJOIN|,)\s+"), "SELECT"),
    (re.compile(r"\bnextval\('"), "USAGE"),
)
TABLE = re.compile(r"(verbworker(?:_engine)?)\.([a-z_]+)\b(?!\()")
# Run by the owner, by whoever tests an application, and by the doctor itself.
NOT_A_WORKERS = ("schema", "testing", "checkup")


def statements() -> Iterator[str]:
    """Every shipped statement, and the bodies of the functions and triggers they set off."""
    for store in _sql.stores():
        if store not in NOT_A_WORKERS:
            yield from _sql.queries(store).values()
    for _, text in _sql.migrations():
        yield from re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)


def done() -> set[tuple[str, str, str]]:
    found: set[tuple[str, str, str]] = set()
    for statement in statements():
        text = re.sub(r"--.*", "", statement)
        for begins, privilege in DOES:
            for begin in begins.finditer(text):
                if named := TABLE.match(text, begin.end()):
                    found.add((named[1], named[2], privilege))
    return found


def needed() -> set[tuple[str, str, str]]:
    return {
        (schema, table, privilege)
        for schema, tables in NEEDS.items()
        for table, privileges in tables.items()
        for privilege in privileges
    }


def test_a_role_must_do_what_the_statements_do() -> None:
    assert done() - needed() == set()


def test_a_role_need_not_do_what_no_statement_does() -> None:
    # Every start of a worker reads the one; locking a row or overwriting one in its place takes the right to change it.
    assert needed() - done() == {
        ("verbworker", "migration", "SELECT"),
        ("verbworker", "step_visit", "UPDATE"),
        ("verbworker_engine", "ended_instance", "UPDATE"),
        ("verbworker_engine", "message_start", "UPDATE"),
        ("verbworker_engine", "timer", "UPDATE"),
    }


@pytest.fixture
def worker(dsn: str) -> Iterator[str]:
    """The database as a role has it that may do what a worker does, and no more."""
    name, parts = f"worker_{uuid4().hex[:8]}", urlsplit(dsn)
    run_apart(execute(dsn, f"CREATE ROLE {name} LOGIN PASSWORD 'x'; {grants(name)}"))
    yield urlunsplit(parts._replace(netloc=f"{name}:x@{parts.hostname}:{parts.port}"))
    run_apart(execute(dsn, f"DROP OWNED BY {name}; DROP ROLE {name}"))


async def test_postgres_lets_such_a_role_run_every_statement(worker: str) -> None:
    refused: dict[str, str] = {}
    async with plain(worker) as connection:
        for store in _sql.stores():
            for name, statement in _sql.queries(store).items() if store not in NOT_A_WORKERS else ():
                try:
                    # Planned and made ready, which is when rights are checked, but not run.
                    await connection.execute(f"EXPLAIN (GENERIC_PLAN) {statement}")
                except PostgresError as error:
                    refused[f"{store}.{name}"] = str(error)

    assert refused == {}
