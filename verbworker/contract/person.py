"""People: the name that is recorded, the identity that stays when the name changes, and the roles."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Final
from uuid import UUID

from verblint.contracts.syntax import ROLE
from verblint.names import READER
from verbworker.contract.text import is_name
from verbworker.errors import NotAllowed

SUPERVISOR: Final = "supervisor"
"""The role of people who may release what another person claimed."""

MOST_ROLES: Final = 1_000
"""How many roles a login may have: directories that list hundreds of groups are common."""

_ROLE = re.compile(ROLE.expression)
_LONGEST_ROLE = 200  # characters, as of a person's name


@dataclass(frozen=True)
class Person:
    """Who acts. Without an issuer and a subject, the name is all that is known.

    `roles` is None where none are declared, as in a deployment without roles: such a person may do everything. An empty
    set is a person without any role, who may only look.
    """

    name: str
    roles: frozenset[str] | None = None
    issuer: str | None = None
    subject: str | None = None

    @cached_property
    def person_id(self) -> UUID | None:
        """The id of issuer and subject: the same person has it under any name; None without them."""
        if self.issuer is None or self.subject is None:
            return None
        # The length keeps two pairs apart whose texts would join to the same one.
        whole = f"{len(self.issuer)}:{self.issuer}{self.subject}"
        return UUID(bytes=sha256(whole.encode("utf-8", errors="surrogatepass")).digest()[:16])

    @property
    def may_change(self) -> bool:
        """Whether this person may change anything at all."""
        return self.roles is None or bool(self.roles - {READER})

    @property
    def only_looks(self) -> str:
        """What a person is told who may only look."""
        return f"{self.name} may only look: a change needs a role other than {READER}"

    def require_change(self) -> None:
        """Raise `NotAllowed` for a person who may only look."""
        if not self.may_change:
            raise NotAllowed(self.only_looks)

    def has_any(self, roles: Collection[str]) -> bool:
        """Return whether this person has one of these roles; roles that are not declared count as all."""
        return self.roles is None or not self.roles.isdisjoint(roles)

    def is_same(self, name: str, person_id: UUID | None) -> bool:
        """Return whether a record is of this person: by identity if both have one, else by name."""
        if self.person_id is not None and person_id is not None:
            return self.person_id == person_id
        return self.name == name


def as_person(who: str | Person, roles: frozenset[str] | None = None) -> Person:
    """Return a person as is, or one of whom only the name is known."""
    return who if isinstance(who, Person) else Person(who, roles)


def read_roles(value: object, known: Collection[str] = ()) -> frozenset[str]:
    """Return the roles in a claim: a text is one role, and of a list each text is one; nothing else is a role.

    With `known`, only those of them.
    """
    given: Iterable[object] = value if isinstance(value, list) else (value,)
    found = (role for role in given if isinstance(role, str) and len(role) <= _LONGEST_ROLE and is_name(role))
    return frozenset(role for role in found if _ROLE.fullmatch(role) and (not known or role in known))


def find_claim(claims: object, path: str) -> object:
    """Return a claim by its name, or by the names on the way to it: `realm_access.roles`."""
    if isinstance(claims, dict) and path in claims:
        return claims[path]
    for step in path.split("."):
        claims = claims.get(step) if isinstance(claims, dict) else None
    return claims
