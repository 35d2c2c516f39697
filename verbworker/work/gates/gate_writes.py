"""What is written at a gate, with its events in the same commit: a claim, a release, the one decision.

People act here and in the engine's task list. Both go through these writes, so that the runbook reads the same.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from verbworker.contract.person import Person
from verbworker.contract.text import require_name, require_text
from verbworker.errors import InvocationInvalid, NotFound, RequestConflict, StoreConflict
from verbworker.job.job import Job
from verbworker.runbook.decision_form import read_inputs
from verbworker.runbook.event import Kind, ParkedToken
from verbworker.stores.cases.gates import EarlierGate, GateStore, HumanGate
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Connection, Database
from verbworker.work.gates.gate_rules import GateRules

_log = logging.getLogger(__name__)

LONGEST_WORD = 200  # characters of a decision or a name
_LONGEST_REASON = 4000  # characters; people write them
CLAIMED_FOR = timedelta(seconds=30)  # what a process that died had claimed is claimed again after that
_CLOSED = {
    "fired": "its time was up",
    "ended": "the entry has ended",
    "gone": "the process no longer waited there",
    "canceled": "the process withdrew it",
    "resumed": "the process continued without it",
}


@dataclass(frozen=True, slots=True)
class DecisionInput:
    """A decision as a person made it."""

    decision: str
    reason: str
    by: Person
    inputs: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParkedGate:
    """A gate whose task has arrived: whether it was opened by that, and whether it is already decided."""

    token_id: UUID
    is_opened: bool
    is_decided: bool


class GateWrites:
    """Writes to a locked gate if the person may, and appends the events. With `refuse_unknown`: see `GateRules`."""

    def __init__(self, database: Database, *, refuse_unknown: bool = False) -> None:
        self._rules = GateRules(database, refuse_unknown=refuse_unknown)
        self._gates = GateStore(database)
        self._runbook = Runbook(database)

    async def park_in(self, connection: Connection, job: Job, token: ParkedToken) -> ParkedGate:
        """Park an entry at its gate, or find the gate; one that was closed without a decision is opened again."""
        token_id, is_new = await self._runbook.park_in(connection, token)
        standing = None if is_new else await self._gates.get_in(connection, token_id)
        is_decided = standing is not None and standing.verdict is not None
        is_ours = standing is not None and standing.entry_id == token.entry_id
        is_back = is_ours and not is_decided and await self._gates.reopen_in(connection, token_id)
        if is_new or is_back:
            once = f"parked:{job.element_instance_key}" + (f":{job.activated_ms}" if is_back else "")
            detail = {"wait": token.kind.value, "reason": token.reason, "gate": token.gate or ""}
            detail["token_id"] = str(token_id)
            await self._runbook.append_in(connection, token.entry_id, Kind.PARKED, once=once, detail=detail)
        return ParkedGate(token_id, is_opened=is_new or is_back, is_decided=is_decided)

    async def move_in(self, connection: Connection, job: Job, earlier: EarlierGate, token: ParkedToken) -> bool:
        """Move a gate to a task that the engine lost and created again; return whether it is decided."""
        if not await self._gates.move_in(connection, earlier, token):
            raise StoreConflict("the gate is being moved by another worker")
        keys = {"job_key": job.key, "token_id": str(earlier.token_id)}
        _log.warning("the engine created the task of a gate again under another key", extra=keys)
        gate = await self._gates.get_in(connection, earlier.token_id)
        return gate is not None and gate.verdict is not None

    async def claim_in(self, connection: Connection, gate: HumanGate, by: Person) -> None:
        """Record who claims a gate; raises `NotAllowed` for a person who may not decide there."""
        await self._rules.require_decider_in(connection, gate, by)
        await self._claim(connection, gate, by)

    async def assign_in(self, connection: Connection, gate: HumanGate, to: Person, by: Person) -> None:
        """Give a gate to a person who may decide there; raises `NotAllowed` for either of the two."""
        self._rules.require_assigner(gate, by)
        await self._rules.require_decider_in(connection, gate, to)
        had = {} if gate.claimed_by is None else {"had": gate.claimed_by}
        await self._claim(connection, gate, to, assigned_by=by.name, **had)

    async def release_in(self, connection: Connection, gate: HumanGate, by: Person) -> None:
        """Clear the claim of a gate, if it has one; raises `NotAllowed`."""
        self._rules.require_releaser(gate, by)
        await self.mirror_release_in(connection, gate, by.name)

    async def mirror_claim_in(self, connection: Connection, gate: HumanGate, assignee: str) -> None:
        """Record an assignment that the engine made: whether it may is the engine's to say."""
        await self._claim(connection, gate, Person(assignee))

    async def mirror_release_in(self, connection: Connection, gate: HumanGate, by: str, *, reason: str = "") -> None:
        """Clear the claim of a gate that the engine released, if it has one."""
        if gate.claimed_by is not None and gate.claimed_at is not None:
            await self._gates.release_in(connection, gate.token_id)
            once = f"released:{gate.claimed_at.timestamp()}"
            why = {"reason": reason} if reason else {}
            await self._append(connection, gate, Kind.GATE_RELEASED, once, by=by, had=gate.claimed_by, **why)

    async def decide_in(
        self, connection: Connection, gate: HumanGate, word: DecisionInput, *, send_within: timedelta | None
    ) -> None:
        """Store the decision of an open gate and close it; `RequestConflict` if it has one, or `NotAllowed`.

        With `send_within` the caller informs the engine within that time, else a relay does.
        """
        await self._rules.require_decider_in(connection, gate, word.by)
        inputs = read_inputs(gate.detail, word.decision, word.inputs)
        given = word.decision, word.reason, word.by.name
        kept = await self._gates.decide_in(
            connection,
            *(gate.token_id, *given),
            send_within=send_within,
            person_id=word.by.person_id,
            inputs=inputs,
        )
        if kept is None or not await self._gates.close_in(connection, gate.token_id, closed_as="decided"):
            raise RequestConflict(f"{gate.gate} was decided before")
        detail: dict[str, object] = {"decision": word.decision, "reason": word.reason, **_who(word.by)}
        if inputs:
            detail["inputs"] = inputs
        await self._append(connection, gate, Kind.GATE_DECIDED, "decided", **detail)
        await self._append(connection, gate, Kind.RESUMED, "resumed", wait="human_gate")

    async def _claim(self, connection: Connection, gate: HumanGate, by: Person, **more: str) -> None:
        at = await self._gates.claim_in(connection, gate.token_id, by.name, by.person_id)
        await self._append(connection, gate, Kind.GATE_CLAIMED, f"claimed:{at.timestamp()}", **_who(by), **more)

    async def withdraw_in(self, connection: Connection, gate: HumanGate, *, is_recorded: bool) -> None:
        """Close a gate because the engine withdrew its task; with `is_recorded`, another event says why."""
        if await self._gates.close_in(connection, gate.token_id, closed_as="canceled") and not is_recorded:
            await self._append(connection, gate, Kind.GATE_GONE, "gone")

    async def _append(self, connection: Connection, gate: HumanGate, kind: Kind, once: str, **detail: object) -> None:
        await self._runbook.append_in(
            connection,
            gate.entry_id,
            kind,
            once=f"{once}:{gate.element_instance_key}",
            detail={"gate": gate.gate, "token_id": str(gate.token_id), **detail},
        )


def require_readable(word: DecisionInput) -> None:
    """Raise `InvocationInvalid` unless a decision is text of a length that people read."""
    require_name("the decision", word.decision, LONGEST_WORD)
    require_name("the name of who decides", word.by.name, LONGEST_WORD)
    require_text("the reason", word.reason, _LONGEST_REASON, empty=True)


def require_choice(gate: HumanGate, decision: str) -> None:
    """Raise `InvocationInvalid` for a decision that the gate does not accept."""
    if gate.decisions and decision not in gate.decisions:
        raise InvocationInvalid(f"{gate.gate} takes {', '.join(gate.decisions)}, and not {decision!a}")


def require_open(gate: HumanGate | None, token_id: UUID, by: Person | None) -> HumanGate:
    """Return the gate if it still waits and no other person has claimed it."""
    if gate is None:
        raise NotFound(f"there is no gate {token_id}")
    if gate.verdict is not None:
        made = gate.verdict
        raise RequestConflict(
            f"{gate.gate} of entry {gate.entry_id} is decided: {made.by} said {made.decision!a} at {_moment(made.at)}"
        )
    if gate.closed_at is not None:
        why = _CLOSED.get(gate.closed_as or "", "it no longer waits")
        raise RequestConflict(f"{gate.gate} of entry {gate.entry_id} closed at {_moment(gate.closed_at)}: {why}")
    if by is None or gate.claimed_by is None or gate.claimed_at is None:
        return gate
    if not by.is_same(gate.claimed_by, gate.claimed_by_id):
        namesake = ", another person of that name," if gate.claimed_by == by.name else ""
        raise RequestConflict(
            f"{gate.gate} of entry {gate.entry_id} is claimed by {gate.claimed_by}{namesake}"
            f" since {_moment(gate.claimed_at)}; it can be released"
        )
    return gate


def _who(person: Person) -> dict[str, str]:
    """Return a person for an event: the name, and the id if there is one."""
    return {"by": person.name} | ({} if person.person_id is None else {"by_id": str(person.person_id)})


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
