"""People by issuer and subject, with the name and the roles of their last login."""

from verbworker.contract.person import Person
from verbworker.stores.database import Connection, Database
from verbworker.stores.sql import query

KEYS = "api-key"
"""The issuer of people who log in by a key: its name is the subject."""


class People:
    """The people of every tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, tenant_id: str, person: Person) -> None:
        """Store a person with an identity; one without is known by name only."""
        if person.person_id is not None:
            roles = None if person.roles is None else sorted(person.roles)
            identity = person.person_id, person.issuer, person.subject
            await self._database.execute(query("people", "note"), tenant_id, *identity, person.name, roles)

    async def named_in(self, connection: Connection, tenant_id: str, name: str) -> Person:
        """Return the person of this name. Of several, only the roles that all of them have, and no identity."""
        rows = await connection.fetch(query("people", "named"), tenant_id, name)
        declared = [frozenset(row["roles"]) for row in rows if row["roles"] is not None]
        roles = frozenset.intersection(*declared) if declared else None
        if len(rows) == 1 and rows[0]["issuer"] != KEYS:
            return Person(name, roles, rows[0]["issuer"], rows[0]["subject"])
        return Person(name, roles)
