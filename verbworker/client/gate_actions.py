"""What a client does at gates: list, decide, and claim with the engine's answer."""

from collections.abc import Mapping
from uuid import UUID

from verbworker.app.engine_links import EngineLinks
from verbworker.client.cursors import next_cursor, parse_cursor
from verbworker.client.records import GatePage, GateRecord
from verbworker.client.resources import Resources
from verbworker.contract.person import Person
from verbworker.stores.cases.gates import HumanGate
from verbworker.stores.id_prefixes import IdPrefixes
from verbworker.work.gates.decide import Gates

CLAIM_WAIT_S = 5.0
"""How long a claim waits for the engine: a worker sends it within a second, and its listeners answer in another."""


class GateActions:
    """The gates of a tenant."""

    def __init__(self, resources: Resources, tenant: str) -> None:
        self._tenant = tenant
        refuse_unknown = resources.settings.unknown_roles == "refuse"
        self._gates = Gates(resources.database, refuse_unknown=refuse_unknown)
        self._prefixes = IdPrefixes(resources.database, tenant)
        self._links = EngineLinks.of(resources.settings)

    async def list(
        self, *, gate: str | None, entry_id: UUID | None, closed: bool, limit: int, cursor: str | None
    ) -> GatePage:
        """Return a page of the gates that wait for a person; with `closed` also closed ones."""
        after = parse_cursor(cursor)
        found = await self._gates.list(
            self._tenant, gate=gate, entry_id=entry_id, closed=closed, after=after, limit=limit + 1
        )
        rows = tuple(self._record(one) for one in found[:limit])
        return GatePage(gates=rows, next=next_cursor([one.key for one in found], limit))

    async def find(self, where: UUID | str, gate: str | None) -> GateRecord:
        """Return one gate."""
        return self._record(await self._gates.find(await self._id(where), self._tenant, gate=gate))

    async def decide(
        self,
        where: UUID | str,
        decision: str,
        *,
        reason: str,
        gate: str | None,
        inputs: Mapping[str, object] | None,
        by: Person,
    ) -> GateRecord:
        """Decide at a gate."""
        token = await self._id(where)
        return self._record(
            await self._gates.decide(
                token, decision, reason=reason, inputs=inputs, by=by, tenant_id=self._tenant, gate=gate
            )
        )

    async def claim(self, where: UUID | str, *, gate: str | None, by: Person, wait: float) -> GateRecord:
        """Claim a gate, and wait for what the engine says if it has a task list."""
        claimed = await self._gates.claim(await self._id(where), by, self._tenant, gate=gate)
        return self._record(await self._gates.await_engine(claimed, wait))

    async def release(self, where: UUID | str, *, gate: str | None, by: Person, wait: float) -> GateRecord:
        """Release a gate, and wait likewise."""
        released = await self._gates.release(await self._id(where), by, self._tenant, gate=gate)
        return self._record(await self._gates.await_engine(released, wait))

    def _record(self, gate: HumanGate) -> GateRecord:
        return GateRecord.of(gate, self._links)

    async def _id(self, text: UUID | str) -> UUID:
        return text if isinstance(text, UUID) else await self._prefixes.entry_or_gate(text)
