"""Every named query as the logins of the roles, with row level security: who may run it is in `query_roles.txt`."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.security import query_roles
from tests.security.test_sql_roles import answers, session
from tests.support import foreign
from tests.support.apart import run_apart
from tests.support.databases import execute
from tests.support.logins import ROLES

pytestmark = pytest.mark.attack("SQL role")

EXPECTED = query_roles.expected()
# A surface runs the queries of these stores in its own process: one that loses a right there stops working.
OF_SURFACES = {
    "worker": ("frames", "deliveries", "tokens", "leases", "inbox", "seals", "retention", "compensations", "payloads"),
    "console": ("console_sessions", "gates", "overview", "histories", "dead_letters", "people", "id_prefixes"),
    "ingress": ("inbox", "handoff", "gates", "runbook", "instances", "people", "tenant_use"),
    "reader": ("overview", "histories", "record_verifier", "payload_checks", "id_prefixes", "checkup"),
}

# What they write they write by a function, which runs with the rights of who calls it.
WRITE_INSIDE = {
    "reader": {
        *("frames.pop_one", "incidents.settle", "instances.tell_eviction", "instances.tell_adoption"),
        *("runbook.append", "finishes.finish_one"),
    }
}


@pytest.fixture(scope="module")
def shared(database_template: Any) -> Iterator[str]:
    """A database with a case of a tenant."""
    with database_template.clone() as address:
        run_apart(execute(address, foreign.ROWS))
        yield address


@pytest.fixture(scope="module")
def found(shared: str) -> dict[str, list[str]]:
    """Who may run what."""
    return run_apart(query_roles.allowed(shared))


@pytest.fixture(scope="module")
def refused(shared: str) -> dict[tuple[str, str], str]:
    """What those answer, with values, who may run a query: refusals of rights inside of functions and triggers."""

    async def run() -> dict[tuple[str, str], str]:
        said = {}
        for role in ROLES:
            async with session(shared, role, "*" if role == "worker" else foreign.TENANT) as connection:
                for name, by in EXPECTED.items():
                    if role in by:
                        said[name, role] = await answers(connection, query_roles.ALL[name], foreign.ENTRY)
        return {where: words for where, words in said.items() if words.startswith("refused")}

    return run_apart(run())


@pytest.mark.parametrize("name", query_roles.ALL)
def test_a_query_is_run_by_the_expected_roles_and_refused_to_the_others(found: dict[str, list[str]], name: str) -> None:
    assert found[name] == EXPECTED.get(name), "if that is meant: python -m tests.security.query_roles"


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_may_run_is_not_refused_inside(refused: dict[tuple[str, str], str], role: str) -> None:
    assert {name for name, by in refused if by == role} == WRITE_INSIDE.get(role, set())


@pytest.mark.parametrize("role", OF_SURFACES)
def test_a_surface_may_read_all_of_its_stores(role: str) -> None:
    reads = ("SELECT", "WITH")
    missing = [
        name
        for name, by in EXPECTED.items()
        if name.partition(".")[0] in OF_SURFACES[role] and role not in by and not _writes(query_roles.ALL[name])
        if query_roles.ALL[name].lstrip().startswith(reads)
    ]

    assert missing == []


def _writes(statement: str) -> bool:
    words = ("INSERT", "UPDATE", "DELETE", "LOCK", "verbworker.drop_", "verbworker.archive_", "verbworker.prune_")
    return any(word in statement for word in words)


def test_every_query_has_a_line() -> None:
    assert sorted(EXPECTED) == sorted(query_roles.ALL)
