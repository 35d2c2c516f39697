"""Who may act at a gate: the only place that says so, for people here and in the engine's task list."""

from verbworker.contract.person import SUPERVISOR, Person
from verbworker.errors import NotAllowed
from verbworker.stores.cases.gates import GateStore, HumanGate
from verbworker.stores.database import Connection, Database


class GateRules:
    """Compares a person with the audience of a gate, with who asked for the case, and with who decided before.

    With `refuse_unknown`, a person whose roles are not declared counts as one without roles where a role is needed.
    """

    def __init__(self, database: Database, *, refuse_unknown: bool = False) -> None:
        self._gates = GateStore(database)
        self._refuse_unknown = refuse_unknown

    async def require_decider_in(self, connection: Connection, gate: HumanGate, person: Person) -> None:
        """Raise `NotAllowed` unless this person may claim and decide a locked gate."""
        person.require_change()
        if gate.audience and not self._has_any(person, gate.audience):
            raise NotAllowed(
                f"only {' or '.join(gate.audience)} may decide at {gate.gate}, and {self._describe(person)}"
            )
        # The entry is locked: of two decisions at the same time, the second sees the first.
        involved = await self._gates.involved_in(connection, gate)
        if gate.four_eyes and person.is_same(involved.asked_by, involved.asked_by_id):
            raise NotAllowed(f"{person.name} asked for this case, so another person must decide at {gate.gate}")
        for earlier in involved.decided:
            if person.is_same(earlier.by, earlier.by_id):
                raise NotAllowed(
                    f"{person.name} decided at {earlier.gate}, so another person must decide at {gate.gate}"
                )

    def require_releaser(self, gate: HumanGate, person: Person) -> None:
        """Raise `NotAllowed` unless this person may release the claim of a gate."""
        person.require_change()
        if gate.claimed_by is None or person.is_same(gate.claimed_by, gate.claimed_by_id):
            return
        if not self._has_any(person, (SUPERVISOR,)):
            raise NotAllowed(
                f"only {gate.claimed_by} or a {SUPERVISOR} may release {gate.gate}, and {self._describe(person)}"
            )

    def _has_any(self, person: Person, roles: tuple[str, ...]) -> bool:
        return person.has_any(roles) and not (person.roles is None and self._refuse_unknown)

    def _describe(self, person: Person) -> str:
        if person.roles is None:
            return f"the roles of {person.name} are not declared"
        return f"{person.name} has the roles {', '.join(sorted(person.roles))}"
