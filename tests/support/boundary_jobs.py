"""Builders for crossings: an instance with a payload, the claim on its job, and the job after it entered."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from tests.support.flags import flag_contract
from tests.support.frames import make_job
from verblint.contracts.contract import Flag, FlagType
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.job.frame import Claim, InstanceFacts
from verbworker.job.job import ENTRY_ID, INSTANCE_UID, PAYLOAD, PAYLOAD_HASH, TENANT_ID
from verbworker.payload.boundary import AdmittedJob, JobVariables, enter
from verbworker.payload.envelope import pack
from verbworker.payload.record import Head
from verbworker.payload.signature import KeyRing, Seal

UID = UUID("11111111-1111-1111-1111-111111111111")
ENTRY = UUID("22222222-2222-2222-2222-222222222222")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DATA: dict[str, Any] = {"amount": 7, "note": "", "person": {"name": "Ada", "born": "1815"}, "stranger": [1, 2]}

INSTANCE = InstanceFacts(
    tenant_id="t1",
    entry_id=ENTRY,
    verb="kyc.open-case",
    verb_version="1",
    engine_id="engine-1",
    instance_key=9000,
    correlation={"corr_case": "c-1"},
)
CLAIM = Claim(
    job_key=1,
    epoch=1,
    owner=UUID(int=3),
    claimed_from="new",
    runs=1,
    retries_left=3,
    generation=0,
    idempotency_key="vw1-key",
    first_run_at=NOW,
    now=NOW,
    lease_until=NOW + timedelta(seconds=30),
    instance=INSTANCE,
    input_version=0,
    input_is_head=True,
)


class Person(BaseModel):
    name: str


class Case(BaseModel):
    amount: int = Field(ge=0)
    note: str = ""
    tags: list[str] = []
    person: Person | None = None


async def idle(case: Case) -> Case:
    """A verb that changes nothing."""
    return case


def make_registry(function: Callable[..., Any] = idle, *, options: Any = None, **changes: Any) -> Registry:
    """`kyc.check` does `function`; the other verbs are allowed to undo it, or not at all."""
    verbs = Registry()
    verbs.verb("kyc.check", **{"mode": "transactional", **(options or {})})(function)
    verbs.verb("kyc.undo", mode="transactional")(idle)
    verbs.verb("kyc.forbidden", mode="transactional")(idle)
    workflow = WorkflowVerb(
        name="kyc.open-case",
        version=1,
        process="kyc",
        schema="kyc.open-case/v1",
        sub_verbs=("kyc.check",),
        compensation={"kyc.check": "kyc.undo"},
        correlation={"corr_case": "${state.case_id}", "corr_other": "${state.other_id}"},
        flag_contract=flag_contract(Flag("orch_done", FlagType.BOOLEAN, False)),
    )
    return verbs.declare(replace(workflow, **changes))


def make_content(data: Mapping[str, Any] = DATA, schema: str = "kyc.open-case/v1") -> bytes:
    """The payload an instance carries."""
    return pack(schema, dict(data), by="tests", at=NOW).to_bytes()


def sealed(content: bytes, seal: Seal | None = None, version: int = 0) -> str:
    """Its seal."""
    return (seal or Seal.plain()).seal(content, tenant="t1", instance_uid=str(UID), version=version)


def make_head(content: bytes, seal: Seal | None = None, version: int = 1) -> Head:
    """A payload of record that another branch wrote."""
    return Head(content, sha256(content).digest(), version, sealed(content, seal, version))


def make_variables(content: bytes | None = None, changes: Mapping[str, object] | None = None) -> dict[str, object]:
    """Everything a job carries for us."""
    carried = make_content() if content is None else content
    return {
        PAYLOAD: carried.decode(),
        PAYLOAD_HASH: sealed(carried),
        INSTANCE_UID: str(UID),
        ENTRY_ID: str(ENTRY),
        TENANT_ID: "t1",
        **(changes or {}),
    }


def entered(
    registry: Registry | None = None,
    *,
    claim: Claim = CLAIM,
    ring: KeyRing | None = None,
    head: Head | None = None,
    variables: Mapping[str, object] | None = None,
    **job: Any,
) -> AdmittedJob:
    """A job that entered, or what refused it."""
    carried = make_variables() if variables is None else variables
    delivered = make_job(**{"type": "kyc.check", "variables": carried, **job})
    return enter(delivered, JobVariables.of(delivered), claim, registry or make_registry(), ring=ring, head=head)
