"""Ids that people type: in full, or only as much of the beginning as makes them unique."""

from uuid import UUID

from verbworker.errors import InvocationInvalid, NotFound, RequestConflict
from verbworker.stores.database import Database
from verbworker.stores.sql import query

SHORTEST = 4
"""Characters that a beginning has at least: fewer are a typing mistake."""

_DIGITS = frozenset("0123456789abcdef")
_LENGTH = 32  # hexadecimal digits of a UUID


class IdPrefixes:
    """Finds the ids of one tenant by their beginnings. An id that is given in full is not looked up."""

    def __init__(self, database: Database, tenant_id: str) -> None:
        self._database = database
        self._tenant_id = tenant_id

    async def entry(self, text: str) -> UUID:
        """Return the id of an entry; raises `NotFound`, `RequestConflict` or `InvocationInvalid`."""
        return await self._find(text, "entry", "entry")

    async def entry_or_gate(self, text: str) -> UUID:
        """Return the id of an entry or of a gate; raises as `entry` does."""
        return await self._find(text, "entry or gate", "entry", "gate")

    async def entry_or_incident(self, text: str, *, without_entry: bool = False) -> UUID:
        """Return the id of an entry or of an incident, also of a plain process; raises as `entry` does."""
        more = ("plain_incident",) if without_entry else ()
        return await self._find(text, "entry or incident", "entry", "incident", *more)

    async def letter(self, text: str) -> UUID:
        """Return the id of a dead letter; raises as `entry` does."""
        return await self._find(text, "dead letter", "letter")

    async def _find(self, text: str, what: str, *queries: str) -> UUID:
        digits = id_digits(text)
        first, last = UUID(digits.ljust(_LENGTH, "0")), UUID(digits.ljust(_LENGTH, "f"))
        if first == last:
            return first
        found: list[UUID] = []
        for name in queries:
            rows = await self._database.fetch(query("id_prefixes", name), self._tenant_id, first, last)
            found += [row["id"] for row in rows]
        match found:
            case []:
                raise NotFound(f"the tenant {self._tenant_id} has no {what} whose id begins with {text}")
            case [one]:
                return one
        raise RequestConflict(f"{text} is the beginning of several ids, such as {found[0]} and {found[1]}; give more")


def id_digits(text: str) -> str:
    """Return the digits of an id or of its beginning; raises `InvocationInvalid` if it cannot be one."""
    digits = text.strip().lower().replace("-", "")
    if not SHORTEST <= len(digits) <= _LENGTH or not _DIGITS.issuperset(digits):
        raise InvocationInvalid(
            f"{text[:60]!a} is not an id; give an id, or at least {SHORTEST} characters of its beginning"
        )
    return digits
