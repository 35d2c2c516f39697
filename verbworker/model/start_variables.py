"""Start of a process: a caller's arguments become its payload, correlation keys and variables."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import PermanentContract
from verbworker.job.job import ENTRY_ID, INSTANCE_UID, PAYLOAD, PAYLOAD_HASH, TENANT_ID
from verbworker.payload.envelope import pack
from verbworker.payload.signature import KeyRing, Seal


@dataclass(frozen=True, slots=True)
class StartVariables:
    """A new instance: stored in the database first, then started in the engine."""

    instance_uid: UUID
    entry_id: UUID
    tenant_id: str
    content: bytes
    seal: str
    flags: Mapping[str, object]
    correlation: Mapping[str, str]
    business_key: str | None
    variables: Mapping[str, object]


def begin(
    workflow: WorkflowVerb,
    data: Mapping[str, Any],
    *,
    instance_uid: UUID,
    entry_id: UUID,
    tenant_id: str,
    at: datetime,
    args: Mapping[str, object] | None = None,
    ring: KeyRing | None = None,
) -> StartVariables:
    """Pack and seal the initial data and set every declared flag; raise `PermanentContract` if it does not fit."""
    content = pack(workflow.schema, dict(data), by=workflow.name, at=at).to_bytes(budget=workflow.budget)
    correlation, flags = workflow.keys_of(data, args), workflow.flag_contract.initial()
    seal = seal_of(workflow, ring).seal(content, tenant=tenant_id, instance_uid=str(instance_uid), version=0)
    return StartVariables(
        instance_uid=instance_uid,
        entry_id=entry_id,
        tenant_id=tenant_id,
        content=content,
        seal=seal,
        flags=flags,
        correlation=correlation,
        business_key=workflow.business_key_of(data, args or {}),
        variables={
            PAYLOAD: content.decode(),
            PAYLOAD_HASH: seal,
            ENTRY_ID: str(entry_id),
            INSTANCE_UID: str(instance_uid),
            TENANT_ID: tenant_id,
            **flags,
            **correlation,
        },
    )


def seal_of(workflow: WorkflowVerb, ring: KeyRing | None) -> Seal:
    """Return how a workflow's payloads are sealed; raise `PermanentContract` when the required keys are missing."""
    if workflow.integrity == "plain":
        return Seal.plain()
    if ring is None:
        raise PermanentContract(f"{workflow.name} needs signed payloads, but no key ring is set", code="KeyRingMissing")
    return Seal.from_ring(ring)
