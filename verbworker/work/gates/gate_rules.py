"""Who may act at a gate: the only place that says so, for people here and in the engine's task list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from verbworker.contract.person import SUPERVISOR, Person
from verbworker.errors import NotAllowed
from verbworker.runbook.decision_form import audience_of
from verbworker.stores.cases.gates import GateStore, HumanGate, Involved
from verbworker.stores.database import Connection, Database


class RuledGate(Protocol):
    """What the rules look at."""

    @property
    def token_id(self) -> UUID: ...

    @property
    def gate(self) -> str: ...

    @property
    def detail(self) -> Mapping[str, Any]: ...

    @property
    def claimed_by(self) -> str | None: ...

    @property
    def claimed_by_id(self) -> UUID | None: ...


@dataclass(frozen=True, slots=True)
class GateAccess:
    """What a person may do at a gate: why not decide, claim, release or assign; empty where it is allowed."""

    decide: str = ""
    claim: str = ""
    release: str = ""
    assign: str = ""


class GateRules:
    """Compares a person with the audience of a gate, with who asked for the case, and with who decided before.

    With `refuse_unknown`, a person whose roles are not declared counts as one without roles where a role is needed.
    """

    def __init__(self, database: Database, *, refuse_unknown: bool = False) -> None:
        self._gates = GateStore(database)
        self._refuse_unknown = refuse_unknown

    async def require_decider_in(self, connection: Connection, gate: HumanGate, person: Person) -> None:
        """Raise `NotAllowed` unless this person may claim and decide a locked gate."""
        # The entry is locked: of two decisions at the same time, the second sees the first.
        why = self._refuse_role(gate, person) or _refuse_part(
            gate, person, await self._gates.involved_in(connection, gate)
        )
        if why:
            raise NotAllowed(why)

    def require_releaser(self, gate: RuledGate, person: Person) -> None:
        """Raise `NotAllowed` unless this person may release the claim of a gate."""
        if why := self._refuse_release(gate, person):
            raise NotAllowed(why)

    def require_assigner(self, gate: RuledGate, person: Person) -> None:
        """Raise `NotAllowed` unless this person may give a gate to another person."""
        if why := self._refuse_assignment(gate, person):
            raise NotAllowed(why)

    def roles_of(self, person: Person) -> list[str] | None:
        """Return the roles that count for a person; None where none are declared and none are needed."""
        if person.roles is None:
            return [] if self._refuse_unknown else None
        return sorted(person.roles)

    async def access(self, tenant_id: str, gates: Sequence[RuledGate], person: Person) -> dict[UUID, GateAccess]:
        """Return what a person may do at open gates, as far as it can be known before it is done."""
        involved = await self._gates.find_people(tenant_id, [gate.token_id for gate in gates])
        return {gate.token_id: self._access(gate, person, involved.get(gate.token_id)) for gate in gates}

    def _access(self, gate: RuledGate, person: Person, involved: Involved | None) -> GateAccess:
        why = self._refuse_role(gate, person) or ("" if involved is None else _refuse_part(gate, person, involved))
        release, assign = self._refuse_release(gate, person), self._refuse_assignment(gate, person)
        if gate.claimed_by is None:
            return GateAccess(why, why, release, assign)
        if person.is_same(gate.claimed_by, gate.claimed_by_id):
            return GateAccess(why, "", release, assign)
        held = f"{gate.gate} is claimed by {gate.claimed_by}, and nobody else decides there until it is released"
        return GateAccess(why or held, why or held, release, assign)

    def _refuse_role(self, gate: RuledGate, person: Person) -> str:
        audience = audience_of(gate.detail)
        if not person.may_change:
            return person.only_looks
        if audience and not self._has_any(person, audience):
            return f"only {' or '.join(audience)} may decide at {gate.gate}, and {self._describe(person)}"
        return ""

    def _refuse_release(self, gate: RuledGate, person: Person) -> str:
        if not person.may_change:
            return person.only_looks
        if gate.claimed_by is None or person.is_same(gate.claimed_by, gate.claimed_by_id):
            return ""
        if self._has_any(person, (SUPERVISOR,)):
            return ""
        return f"only {gate.claimed_by} or a {SUPERVISOR} may release {gate.gate}, and {self._describe(person)}"

    def _refuse_assignment(self, gate: RuledGate, person: Person) -> str:
        """Who has a task may pass it on; a free one is given out by those who may decide there, or a supervisor."""
        if gate.claimed_by is not None or self._has_any(person, (SUPERVISOR,)):
            return self._refuse_release(gate, person)
        return self._refuse_role(gate, person)

    def _has_any(self, person: Person, roles: tuple[str, ...]) -> bool:
        return person.has_any(roles) and not (person.roles is None and self._refuse_unknown)

    def _describe(self, person: Person) -> str:
        if person.roles is None:
            return f"the roles of {person.name} are not declared"
        return f"{person.name} has the roles {', '.join(sorted(person.roles))}"


def _refuse_part(gate: RuledGate, person: Person, involved: Involved) -> str:
    """Return why who had a part in the case may not decide; empty if the rules of the gate allow it."""
    if gate.detail.get("four_eyes") and person.is_same(involved.asked_by, involved.asked_by_id):
        return f"{person.name} asked for this case, so another person must decide at {gate.gate}"
    for earlier in involved.decided:
        if person.is_same(earlier.by, earlier.by_id):
            return f"{person.name} decided at {earlier.gate}, so another person must decide at {gate.gate}"
    return ""
