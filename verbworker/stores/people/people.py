"""People by issuer and subject, with the name and the roles of their last login."""

from collections.abc import Mapping

from verblint.names import READER
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

    async def note_key(self, tenant_id: str, name: str, roles: frozenset[str]) -> None:
        """Store the roles of a person who logs in by a key."""
        await self.note(tenant_id, Person(name, _roles_of_key(roles), KEYS, name))

    async def change_keys(self, tenant_id: str, roles: Mapping[str, frozenset[str] | None]) -> None:
        """Store the roles that a tenant's keys have now, for those who logged in; a key that is gone has none."""
        for row in await self._database.fetch(query("people", "of_issuer"), tenant_id, KEYS):
            now = _roles_of_key(roles[row["name"]]) if row["name"] in roles else frozenset[str]()
            if now != (None if row["roles"] is None else frozenset(row["roles"])):
                given = None if now is None else sorted(now)
                await self._database.execute(query("people", "change_roles"), tenant_id, row["person_id"], given)

    async def names(self, tenant_id: str) -> list[str]:
        """Return the names of people who logged in, the latest login first, without keys that are gone."""
        return [row["name"] for row in await self._database.fetch(query("people", "names"), tenant_id)]

    async def named_in(self, connection: Connection, tenant_id: str, name: str) -> Person:
        """Return the person of this name. Of several, only the roles that all of them have, and no identity.

        A key that is gone counts only if nobody else has its name.
        """
        found = await connection.fetch(query("people", "named"), tenant_id, name)
        rows = [row for row in found if row["issuer"] != KEYS or row["roles"] != []] or found
        declared = [frozenset(row["roles"]) for row in rows if row["roles"] is not None]
        roles = frozenset.intersection(*declared) if declared else None
        if len(rows) == 1 and rows[0]["issuer"] != KEYS:
            return Person(name, roles, rows[0]["issuer"], rows[0]["subject"])
        return Person(name, roles)


def _roles_of_key(roles: frozenset[str] | None) -> frozenset[str] | None:
    """Return the roles to store: no role at all stands for a key that is gone, and a reader may do no more."""
    return frozenset({READER}) if roles is not None and not roles else roles
