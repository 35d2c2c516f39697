"""Native user tasks in tests: a task list's calls over REST, and what the engine's log tells."""

import asyncio
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.support.case_setup import CaseSetup
from tests.support.engine_versions import VersionEngine
from tests.support.http import ask
from tests.support.start_router import TENANT
from verbworker.model.native_tasks import CREATING
from verbworker.stores.cases.gates import GateStore, HumanGate

NATIVE = "<zeebe:userTask/>"
CONTRACT = {
    *("domain_payload", "domain_payload_hash", "vw_entry_id", "vw_instance_uid", "vw_tenant_id"),
    *("orch_first", "corr_case"),
}


@dataclass(frozen=True, slots=True)
class TaskList:
    """The engine's task list, as a person with it calls the engine."""

    engine: VersionEngine

    async def complete(self, key: int, **variables: object) -> tuple[int, str]:
        """Complete a task with variables; return the status and the engine's sentence."""
        return await self._call("POST", f"{key}/completion", {"variables": variables})

    async def assign(self, key: int, assignee: str, *, override: bool = True) -> tuple[int, str]:
        """Assign a task."""
        return await self._call("POST", f"{key}/assignment", {"assignee": assignee, "allowOverride": override})

    async def unassign(self, key: int) -> tuple[int, str]:
        """Take the assignee away."""
        return await self._call("DELETE", f"{key}/assignee", None)

    async def _call(self, method: str, path: str, body: object) -> tuple[int, str]:
        address = self.engine.rest_address
        status, answer = await asyncio.to_thread(ask, method, address, f"/v2/user-tasks/{path}", body)
        return status, answer["detail"] if isinstance(answer, dict) else ""

    def assignee(self, key: int) -> str:
        """Who has a task, as the engine last told."""
        told = [record["value"] for record in self._events("USER_TASK", key)]
        return str(told[-1]["assignee"])

    def states(self, key: int) -> list[str]:
        """Everything that happened to a task."""
        return [record["intent"] for record in self._events("USER_TASK", key)]

    def variables(self, instance_key: int) -> dict[str, Any]:
        """The variables of a process instance itself, without those that are local to an element."""
        found = (record["value"] for record in self.engine.records() if record["valueType"] == "VARIABLE")
        return {value["name"]: value["value"] for value in found if value["scopeKey"] == instance_key}

    def _events(self, kind: str, key: int) -> list[dict[str, Any]]:
        records = self.engine.records()
        return [
            record
            for record in records
            if (record["valueType"], record["recordType"], record["key"]) == (kind, "EVENT", key)
        ]


async def at_gate(setup: CaseSetup, draw: Any, **options: Any) -> HumanGate:
    """A case that waits at its native task."""
    entry_id = await setup.start(draw, **options)
    await setup.serve(CREATING)
    return await gate_of(setup, entry_id)


async def gate_of(setup: CaseSetup, entry_id: UUID) -> HumanGate:
    """The gate of an entry as it stands."""
    (gate,) = await GateStore(setup.database).gates(TENANT, entry_id=entry_id, closed=True)
    return gate
