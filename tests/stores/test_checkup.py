"""What the doctor asks of a role is what the shipped statements do, no less and no more."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
from asyncpg import PostgresError

from tests.support.databases import execute, plain
from tests.support.doctor_app import grants
from tests.support.postgres import run_apart
from verbworker.stores import sql
from verbworker.stores.checkup import FUNCTIONS, NEEDS

DOES = (
    (re.compile(r"\bINSERT INTO\s+"), "INSERT"),
    (re.compile(r"(?<!FOR )(?<!NO KEY )\bUPDATE\s+"), "UPDATE"),
    (re.compile(r"\bDELETE FROM\s+"), "DELETE"),
    (re.compile(r"(?:(?<!DELETE )\bFROM|\bJOIN|,)\s+"), "SELECT"),
    (re.compile(r"\bnextval\('"), "USAGE"),
)
BODY = re.compile(r"(CREATE FUNCTION.*?)\$\$(.*?)\$\$", re.DOTALL)
POLICY = re.compile(r"condition := (.*)")
CALL = re.compile(r"\bverbworker\.([a-z_]+)\(")
OWNERS_ONLY = (
    "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'verbworker'::regnamespace AND prosecdef"
)
TABLE = re.compile(r"(verbworker(?:_engine)?)\.([a-z_]+)\b(?!\()")
# Run by the owner, by whoever tests an application, by the doctor itself, and by the console.
NOT_A_WORKERS = ("migrations", "roles", "testing", "checkup", "erasure", "console_sessions")


def statements() -> Iterator[str]:
    """Every shipped statement, and the bodies of the functions and triggers they set off."""
    for store in sql.stores():
        if store not in NOT_A_WORKERS:
            yield from sql.queries(store).values()
    for _, text in sql.migrations():
        for header, body in BODY.findall(text):
            # What runs as the owner needs nothing of the role that calls it but the right to.
            if "SECURITY DEFINER" not in header:
                yield body


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
        ("verbworker", "deployment_request", "UPDATE"),
        ("verbworker", "envelope_queue", "UPDATE"),
        ("verbworker", "migration", "SELECT"),
        ("verbworker", "process_deployment", "UPDATE"),
        ("verbworker", "step_visit", "UPDATE"),
        ("verbworker", "tenant_use", "UPDATE"),
        ("verbworker_engine", "ended_instance", "UPDATE"),
        ("verbworker_engine", "message_start", "UPDATE"),
        ("verbworker_engine", "timer", "UPDATE"),
        ("verbworker_engine", "token_history", "UPDATE"),
    }


async def test_a_role_must_execute_what_runs_as_the_owner(dsn: str) -> None:
    async with plain(dsn) as connection:
        there = {
            row[0].replace("timestamp with time zone", "timestamptz") for row in await connection.fetch(OWNERS_ONLY)
        }
    policies = POLICY.findall(sql.roles())
    called = {name for statement in (*statements(), *policies) for name in CALL.findall(statement)}
    needed = FUNCTIONS["verbworker"]

    assert there == {f"verbworker.{name}".replace(", ", ",") for name in needed}
    assert {name.partition("(")[0] for name in needed} <= called


async def test_a_role_that_was_not_given_them_cannot_execute_them(dsn: str) -> None:
    name, parts = f"reader_{uuid4().hex[:8]}", urlsplit(dsn)
    await execute(dsn, f"CREATE ROLE {name} LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA verbworker TO {name}")
    async with plain(urlunsplit(parts._replace(netloc=f"{name}:x@{parts.hostname}:{parts.port}"))) as connection:
        with pytest.raises(PostgresError, match="permission denied for function drop_retired"):
            await connection.execute("SELECT verbworker.drop_retired('frame_event', now(), 1)")
    await execute(dsn, f"DROP OWNED BY {name}; DROP ROLE {name}")


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
        for store in sql.stores():
            for name, statement in sql.queries(store).items() if store not in NOT_A_WORKERS else ():
                try:
                    # Planned and made ready, which is when rights are checked, but not run.
                    await connection.execute(f"EXPLAIN (GENERIC_PLAN) {statement}")
                except PostgresError as error:
                    refused[f"{store}.{name}"] = str(error)

    assert refused == {}
