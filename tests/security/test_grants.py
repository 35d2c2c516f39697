"""Every right of every role, by table and column: what `grants.txt` does not give is refused, one test each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from tests.security import grants
from tests.support import foreign
from tests.support.apart import run_apart
from tests.support.databases import execute, plain
from tests.support.logins import ROLES, login

pytestmark = pytest.mark.attack("SQL role")

EXPECTED = grants.expected()
# `WHERE false`: a right is asked for before any row, so that neither a policy nor a constraint answers in its place.
_WHOLE = {
    "SELECT": "SELECT FROM {0} WHERE false",
    "INSERT": "INSERT INTO {0} OVERRIDING SYSTEM VALUE SELECT * FROM {0} WHERE false",
    "DELETE": "DELETE FROM {0} WHERE false",
    "TRUNCATE": "TRUNCATE {0} CASCADE",
    "TRIGGER": "CREATE TRIGGER mine BEFORE UPDATE ON {0} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A statement of a role that `grants.txt` does not allow it."""

    role: str
    what: str
    statement: str

    def __str__(self) -> str:
        return f"{self.role}-{self.what}"


def attempts() -> Iterator[Attempt]:
    """Yield what each role may not do."""
    for line, by in EXPECTED.items():
        kind, _, name = line.partition(" ")
        for role in ROLES:
            match kind:
                case "table":
                    for right in set(_WHOLE) - by[role]:
                        yield Attempt(role, f"{right} {name}", _WHOLE[right].format(name))
                case "view" if "SELECT" not in by[role]:
                    yield Attempt(role, f"SELECT {name}", _WHOLE["SELECT"].format(name))
                case "column" if "UPDATE" not in by[role]:
                    table, _, column = name.rpartition(".")
                    change = f'UPDATE {table} SET "{column}" = DEFAULT WHERE false'
                    yield Attempt(role, f"UPDATE {name}", change)
                case "function" if not by[role]:
                    arguments = ", ".join(f"NULL::{one}" for one in name.partition("(")[2].removesuffix(")").split(","))
                    yield Attempt(role, f"EXECUTE {name}", f"SELECT {name.partition('(')[0]}({arguments})")
                case "sequence" if not by[role]:
                    yield Attempt(role, f"USAGE {name}", f"SELECT nextval('{name}')")


ATTEMPTS = sorted(attempts(), key=str)


@pytest.fixture(scope="module")
def migrated(database_template: Any) -> Iterator[str]:
    """A database with a case in it."""
    with database_template.clone() as address:
        run_apart(execute(address, foreign.ROWS))
        yield address


@pytest.fixture(scope="module")
def answers(migrated: str) -> dict[Attempt, str]:
    """What each attempt was answered, by a session of its role; nothing of one that gets through stays."""

    async def attack() -> dict[Attempt, str]:
        found = {}
        for role in ROLES:
            connection = await asyncpg.connect(
                login(migrated, role), server_settings={"verbworker.tenant": foreign.TENANT}
            )
            try:
                for one in ATTEMPTS:
                    if one.role == role:
                        found[one] = await _answer(connection, one.statement)
            finally:
                await connection.close()
        return found

    return run_apart(attack())


async def _answer(connection: Any, statement: str) -> str:
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(statement)
    except asyncpg.InsufficientPrivilegeError:
        return "refused"
    except asyncpg.PostgresError as error:
        return f"{type(error).__name__}: {error}"
    else:
        return "done"
    finally:
        await transaction.rollback()


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=str)
def test_what_a_role_may_not_do_is_refused(answers: dict[Attempt, str], attempt: Attempt) -> None:
    assert answers[attempt] == "refused", attempt.statement


async def test_the_rights_of_a_migrated_database_are_the_expected_ones(migrated: str) -> None:
    """A new table, column, function or grant is a line in `grants.txt`, which somebody has read."""
    there = await grants.rights(migrated)

    assert set(there) == set(EXPECTED)
    different = {
        f"{line}: {role}": (words, sorted(EXPECTED[line][role]))
        for line, by in there.items()
        for role, words in by.items()
        if set(words.split()) != EXPECTED[line][role]
    }
    assert different == {}


async def test_no_right_goes_by_a_partition_or_by_everyone(migrated: str) -> None:
    """A partition has rights of its own, and PUBLIC is every role."""
    async with plain(migrated) as owner:
        partitions = [
            row[0]
            for row in await owner.fetch(
                "SELECT oid::regclass::text FROM pg_class WHERE relispartition AND relkind = 'r'"
                " AND relnamespace = 'verbworker'::regnamespace"
            )
        ]
        open_ones = await owner.fetch(
            "SELECT role, partition FROM unnest($1::name[]) AS role CROSS JOIN unnest($2::text[]) AS partition"
            " WHERE has_table_privilege(role, partition, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
            *([f"verbworker_{role}" for role in ROLES], partitions),
        )
        public = await owner.fetch(
            "SELECT oid::regclass::text FROM pg_class CROSS JOIN LATERAL aclexplode(relacl) AS given"
            " WHERE given.grantee = 0 AND relnamespace::regnamespace::text IN ('verbworker', 'verbworker_engine')"
        )

    assert partitions
    assert [tuple(row) for row in (*open_ones, *public)] == []


def test_there_is_a_test_for_each_right_that_is_not_given() -> None:
    """So that an empty file of expectations cannot pass for a quiet one."""
    assert len(ATTEMPTS) > 2_000
    assert {attempt.role for attempt in ATTEMPTS} == set(ROLES)
