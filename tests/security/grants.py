"""What each role of the database may do, as `grants.txt` says and as a database says.

`python -m tests.security.grants` prints the latter. A line that changes is a decision about rights: read it first.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.apart import run_apart
from tests.support.databases import plain
from tests.support.logins import ROLES
from tests.support.postgres import Postgres, Template

EXPECTED = Path(__file__).with_suffix(".txt")
WHOLE = ("SELECT", "INSERT", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")

_RELATIONS = """
SELECT relation.oid, relation.oid::regclass::text AS name, relation.relkind, column_names.names
FROM pg_class AS relation
CROSS JOIN LATERAL (
  SELECT array_agg(attname::text ORDER BY attname) AS names FROM pg_attribute
  WHERE attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
) AS column_names
WHERE relnamespace IN ('verbworker'::regnamespace, 'verbworker_engine'::regnamespace)
  AND relkind IN ('r', 'p', 'v', 'm', 'S') AND NOT relispartition
ORDER BY name
"""
_FUNCTIONS = """
SELECT oid, oid::regprocedure::text AS name
FROM pg_proc
WHERE prosecdef AND pronamespace IN ('verbworker'::regnamespace, 'verbworker_engine'::regnamespace)
ORDER BY name
"""


async def rights(dsn: str) -> dict[str, dict[str, str]]:
    """Return, by relation, column and function, what each role may: `worker` -> `SELECT INSERT`."""
    found: dict[str, dict[str, str]] = {}
    async with plain(dsn) as owner:

        async def note(line: str, function: str, oid: int, kinds: tuple[str, ...], column: str | None = None) -> None:
            place = "$2::oid" if column is None else "$2::oid, $4::text"
            test = f"SELECT kind FROM unnest($3::text[]) AS kind WHERE {function}($1::name, {place}, kind)"
            for role in ROLES:
                given = (f"verbworker_{role}", oid, list(kinds), *([] if column is None else [column]))
                words = " ".join(row[0] for row in await owner.fetch(test, *given))
                found.setdefault(line, {})[role] = words

        for relation in await owner.fetch(_RELATIONS):
            name, oid = relation["name"], relation["oid"]
            if relation["relkind"] == b"S":
                await note(f"sequence {name}", "has_sequence_privilege", oid, ("USAGE", "SELECT", "UPDATE"))
                continue
            if relation["relkind"] in (b"v", b"m"):
                await note(f"view {name}", "has_table_privilege", oid, (*WHOLE, "UPDATE"))
                continue
            await note(f"table {name}", "has_table_privilege", oid, WHOLE)
            for column in relation["names"]:
                await note(f"column {name}.{column}", "has_column_privilege", oid, ("UPDATE",), column)
        for row in await owner.fetch(_FUNCTIONS):
            await note(f"function {row['name']}", "has_function_privilege", row["oid"], ("EXECUTE",))
    return found


def lines(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return a line for each, with the roles that may do something: `table x | worker: SELECT INSERT`."""
    return [
        " | ".join([name, *(f"{role}: {words}" for role, words in by.items() if words)]) for name, by in found.items()
    ]


def expected() -> dict[str, dict[str, set[str]]]:
    """Return what the file says: by line and role, the rights."""
    said: dict[str, dict[str, set[str]]] = {}
    for line in EXPECTED.read_text().splitlines():
        name, *parts = line.split(" | ")
        given: dict[str, Any] = dict(part.split(": ") for part in parts)
        said[name] = {role: set(given.get(role, "").split()) for role in ROLES}
    return said


def main() -> None:
    """Print the lines of a database that was just migrated."""
    with Postgres() as server:
        template = Template(server.dsn)
        template.build()
        with template.clone("owner") as dsn:
            print("\n".join(lines(run_apart(rights(dsn)))))


if __name__ == "__main__":
    main()
