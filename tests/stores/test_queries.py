"""Every shipped query, read by a real Postgres; and no SQL anywhere else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from asyncpg import PostgresError

import verbworker
from tests.support.databases import plain
from verbworker.stores import sql

PACKAGE = Path(verbworker.__file__).parent
STATEMENT = re.compile(
    r"^\s*(WITH\s+\w+\s+AS\b|SELECT\s.*(\bFROM\b|\(|\d)|INSERT\s+INTO\s|UPDATE\s+\S+\s+(AS\s+\S+\s+)?SET\b|DELETE\s+FROM\s)",
    re.IGNORECASE | re.DOTALL,
)
INSIDE = re.compile(r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM)\b", re.DOTALL)

NAMED = [(store, name) for store in sql.stores() for name in sql.queries(store)]


def modules(store: str) -> list[Path]:
    """The modules a file of queries belongs to: a store, or the room for users' tests."""
    places = (*(PACKAGE / "stores").rglob(f"{store}.py"), *(PACKAGE / store).glob("*.py"))
    return [place for place in places if place.is_file()]


async def test_postgres_understands_every_query(dsn: str) -> None:
    refused = {}
    async with plain(dsn) as connection:
        for store, name in NAMED:
            try:
                await connection.prepare(sql.query(store, name))
            except PostgresError as error:
                refused[store, name] = str(error)

    assert refused == {}


async def test_a_misspelt_column_would_be_seen(dsn: str) -> None:
    async with plain(dsn) as connection:
        with pytest.raises(PostgresError, match="does not exist"):
            await connection.prepare(sql.query("frames", "read").replace("job_key", "job_kee", 1))


@pytest.mark.parametrize("store", sql.stores())
def test_a_file_of_queries_stands_beside_its_store(store: str) -> None:
    assert modules(store) != []


@pytest.mark.parametrize("store", sql.stores())
def test_a_store_calls_every_query_it_ships(store: str) -> None:
    source = "".join(place.read_text() for place in modules(store))

    assert [name for name in sql.queries(store) if f'"{name}"' not in source] == []


@pytest.mark.parametrize("store", sql.stores())
def test_a_name_is_given_once(store: str) -> None:
    text = (sql.root() / "queries" / f"{store}.sql").read_text(encoding="utf-8")
    names = re.findall(r"^-- name: (.*)$", text, re.MULTILINE)

    assert names == list(sql.queries(store))


@pytest.mark.parametrize(("store", "name"), NAMED, ids=[".".join(pair) for pair in NAMED])
def test_a_query_says_why_it_is_there(store: str, name: str) -> None:
    assert sql.query(store, name).startswith("-- ")


def test_a_query_nobody_wrote_is_a_bug() -> None:
    with pytest.raises(KeyError):
        sql.query("frames", "no_such_query")


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Every string a module computes with: its docstrings are prose."""
    tree = ast.parse(source)
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def has_sql(text: str) -> bool:
    return bool(STATEMENT.match(text) or INSIDE.search(text))


def test_no_module_holds_sql() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text[:60]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in strings(path.read_text())
        if has_sql(text)
    ]

    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "select pg_advisory_lock($1)",
        "\n  WITH a AS (SELECT 1) SELECT 2",
        "INSERT INTO verbworker.migration VALUES ($1)",
        "UPDATE verbworker.job_frame SET state = 'completed'",
        "DELETE FROM verbworker.job_frame",
        "x; DELETE FROM verbworker.job_frame",
    ],
)
def test_the_scan_sees_a_statement(text: str) -> None:
    assert has_sql(text)
    assert [text] == [seen for _, seen in strings(f"x = {text!r}")]


@pytest.mark.parametrize(
    "text",
    [
        "selected by a person",
        "Select a verb.",
        "the update failed",
        "With a new key",
        "Update_<userTaskId>",
        "Delete it.",
    ],
)
def test_the_scan_lets_prose_pass(text: str) -> None:
    assert not has_sql(text)
