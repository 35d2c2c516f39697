"""Which role may run which named query, as `query_roles.txt` says and as a database says.

`python -m tests.security.query_roles` prints the latter. No role runs what is the owner's: migrations and erasure.
"""

from pathlib import Path
from typing import Any

import asyncpg

from tests.support.apart import run_apart
from tests.support.logins import ROLES, login
from tests.support.postgres import Postgres, Template
from verbworker.stores import sql

EXPECTED = Path(__file__).with_suffix(".txt")
ALL = {f"{store}.{name}": text for store in sql.stores() for name, text in sql.queries(store).items()}


async def explain(connection: Any, statement: str) -> str:
    """Return what the rights of a session say to a statement: `yes`, `no`, or that it has no plan."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        # Rights of tables, columns and functions are checked where a plan is made ready, without any value.
        await connection.execute(f"EXPLAIN (GENERIC_PLAN) {statement}")
    except asyncpg.InsufficientPrivilegeError:
        return "no"
    except asyncpg.PostgresSyntaxError:
        return "no plan"
    else:
        return "yes"
    finally:
        await transaction.rollback()


async def allowed(dsn: str) -> dict[str, list[str]]:
    """Return, by query, the roles that may run it; `owner` alone for what none of them may."""
    found: dict[str, list[str]] = {name: [] for name in ALL}
    for role in ROLES:
        connection = await asyncpg.connect(login(dsn, role))
        try:
            for name, statement in ALL.items():
                if await explain(connection, statement) == "yes":
                    found[name].append(role)
        finally:
            await connection.close()
    return {name: by or ["owner"] for name, by in found.items()}


def expected() -> dict[str, list[str]]:
    """Return what the file says."""
    rows = (line.split() for line in EXPECTED.read_text().splitlines())
    return {name: by for name, *by in rows}


def main() -> None:
    """Print a line for each query: its name, and the roles that may run it."""
    with Postgres() as server:
        template = Template(server.dsn)
        template.build()
        with template.clone("owner") as dsn:
            print("\n".join(" ".join((name, *by)) for name, by in run_apart(allowed(dsn)).items()))


if __name__ == "__main__":
    main()
