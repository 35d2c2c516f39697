"""The boundary of a job: checks before a verb sees the case, and before its answer leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from verbworker.contract.flags import check_correlation
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Decision, ReceivedMessage, Result, Verb
from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import PayloadIntegrityError, PermanentContract
from verbworker.job.frame import Claim, InstanceFacts
from verbworker.job.job import ENTRY_ID, INSTANCE_UID, PAYLOAD, PAYLOAD_HASH, TENANT_ID, Job
from verbworker.job.outcome import JobResult
from verbworker.model.start_variables import seal_of
from verbworker.payload.canonical import canonical
from verbworker.payload.envelope import DomainPayload, payload_bytes, unpack
from verbworker.payload.merge import Changes, apply, changes, enforce_writes, merge
from verbworker.payload.record import Head
from verbworker.payload.signature import KeyRing, Seal, SealedPlace
from verbworker.payload.upgrade import Upgrades
from verbworker.profile.task_profile import NO_TASK_PROFILE, TaskProfile

_LONGEST_UUID = 45  # urn:uuid:{...}


@dataclass(frozen=True, slots=True)
class JobVariables:
    """Reserved variables of a job, read without validation: a frame must exist before anything can fail."""

    content: bytes
    seal: object
    instance_uid: UUID | None
    entry_id: UUID | None
    tenant_id: object
    hash: bytes  # the SHA-256 of exactly these bytes

    @classmethod
    def of(cls, job: Job) -> "JobVariables":
        """Read the reserved variables; `enter` rejects those that are missing or malformed."""
        text = job.variables.get(PAYLOAD)
        content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""
        return cls(
            content=content,
            hash=sha256(content).digest(),
            seal=job.variables.get(PAYLOAD_HASH),
            instance_uid=_uuid(job.variables.get(INSTANCE_UID)),
            entry_id=_uuid(job.variables.get(ENTRY_ID)),
            tenant_id=job.variables.get(TENANT_ID),
        )


@dataclass(frozen=True, slots=True)
class AdmittedJob:
    """A job that may run: its verb, its case, and the payload of the case."""

    job: Job
    verb: Verb
    workflow: WorkflowVerb
    seal: Seal
    instance: InstanceFacts
    instance_uid: UUID
    payload: DomainPayload
    input_hash: bytes
    base_hash: bytes
    base_version: int
    case: BaseModel
    before: dict[str, Any]
    at: datetime
    task_profile: TaskProfile = NO_TASK_PROFILE
    upgrades: Upgrades = field(default_factory=Upgrades)
    decisions: tuple[Decision, ...] = ()
    messages: tuple[ReceivedMessage, ...] = ()


def enter(
    job: Job,
    variables: JobVariables,
    claim: Claim,
    registry: Registry,
    *,
    ring: KeyRing | None,
    head: Head | None,
    task_profile: TaskProfile = NO_TASK_PROFILE,
) -> AdmittedJob:
    """Check everything about a job before its verb sees the case; raise `PermanentContract`.

    `head` is the payload of record if it is newer than the engine's. `task_profile` is what the profile says, if any.
    """
    verb = _find_verb(job, registry)
    instance, instance_uid = correlate(job, variables, claim.instance)
    if instance.has_ended:
        raise PermanentContract(f"the entry of this instance is {instance.status}", code="InstanceEnded")
    workflow = _require_allowance(job, verb, instance, registry)
    seal = seal_of(workflow, ring)
    payload_bytes(job.variables.get(PAYLOAD))
    version = claim.input_version
    place = SealedPlace(instance.tenant_id, str(instance_uid), version, instance.unversioned_until)
    seal.check(variables.content, variables.seal, place)
    if version is None:
        raise PayloadIntegrityError("the payload never belonged to this instance", code="PayloadForeign")
    content = variables.content
    if head is not None:
        content = head.check(seal, tenant=instance.tenant_id, instance_uid=instance_uid)
    payload = open_payload(content, workflow, registry.upgrades)
    case = _case(verb, payload, task_profile)
    input_hash = variables.hash
    return AdmittedJob(
        job=job,
        verb=verb,
        workflow=workflow,
        seal=seal,
        instance=instance,
        instance_uid=instance_uid,
        payload=payload,
        input_hash=input_hash,
        base_hash=input_hash if head is None else head.hash,
        base_version=version if head is None else head.version,
        case=case,
        before=_dump(case),
        at=claim.now,
        task_profile=task_profile,
        upgrades=registry.upgrades,
    )


def open_payload(content: bytes, workflow: WorkflowVerb, upgrades: Upgrades) -> DomainPayload:
    """Open a payload whose seal was checked, upgraded to the verb's current schema; raise `PermanentContract`."""
    return upgrades.bring(unpack(content, budget=workflow.budget), workflow.schema)


def _find_verb(job: Job, registry: Registry) -> Verb:
    verb = registry.find(job.type)
    if verb is not None:
        return verb
    if job.type in registry:
        raise PermanentContract(
            f"{job.type} is a workflow verb; a process calls direct verbs only; hand over with a message",
            code="WorkflowVerbNested",
        )
    raise PermanentContract(f"no verb is registered under {job.type}", code="VerbUnknown")


def correlate(job: Job, variables: JobVariables, instance: InstanceFacts | None) -> tuple[InstanceFacts, UUID]:
    """Return a job's instance if all of the job's claims agree with it; raise `PermanentContract` otherwise."""
    if instance is None or variables.instance_uid is None:
        raise PermanentContract(
            "this process instance was not started by verbworker, so nothing is known of it", code="InstanceUnknown"
        )
    if instance.instance_key not in (None, job.process_instance_key):
        raise PermanentContract("the instance's identity belongs to another instance", code="InstanceMismatch")
    if variables.entry_id != instance.entry_id:
        raise PermanentContract("the runbook entry is not the one of this instance", code="EntryMismatch")
    if variables.tenant_id != instance.tenant_id:
        raise PermanentContract("the tenant is not the one of this instance", code="TenantMismatch")
    return instance, variables.instance_uid


def owner(job: Job, instance: InstanceFacts, registry: Registry) -> WorkflowVerb:
    """Return the workflow verb whose process a job belongs to; raise `PermanentContract` if unknown."""
    workflow = registry.workflows.get(instance.verb)
    if workflow is None or workflow.process != job.process_id:
        raise PermanentContract(
            f"the process {job.process_id} belongs to no workflow verb this worker knows", code="ProcessUnknown"
        )
    return workflow


def _require_allowance(job: Job, verb: Verb, instance: InstanceFacts, registry: Registry) -> WorkflowVerb:
    workflow = owner(job, instance, registry)
    if verb.name not in workflow.sub_verbs and verb.name not in workflow.compensation.values():
        raise PermanentContract(f"{verb.name} is not on the allow-list of {workflow.name}", code="SubVerbForbidden")
    return workflow


def _case(verb: Verb, payload: DomainPayload, task_profile: TaskProfile) -> BaseModel:
    content = payload.content if task_profile.mapping is None else canonical(task_profile.mapping.request(payload.data))
    try:
        return verb.model.model_validate_json(content, strict=True)
    except ValidationError as error:
        raise PermanentContract(
            f"the case does not fit what {verb.name} expects ({_misfits(error)})", code="CaseInvalid"
        ) from None


def _misfits(error: ValidationError) -> str:
    """Return where and what, never the value: this text is shown in the engine."""
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'data'}: {problem['type']}"
        for problem in error.errors(include_url=False, include_input=False, include_context=False)[:5]
    )


def _dump(case: BaseModel) -> dict[str, Any]:
    # Computed fields are left out. Warnings would show values; what they warn about is rejected when a verb answers.
    return case.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)


def afresh(entered: AdmittedJob) -> AdmittedJob:
    """Return the same job with its original case: an earlier run may have changed it in place."""
    case = _case(entered.verb, entered.payload, entered.task_profile)
    return replace(entered, case=case, before=_dump(case))


def overtaken(entered: AdmittedJob, correlation: Mapping[str, str]) -> AdmittedJob:
    """Return the same job with the current correlation keys, after another branch wrote."""
    return replace(entered, instance=replace(entered.instance, correlation=correlation))


def leave(entered: AdmittedJob, answer: object, *, head: Head | None = None) -> JobResult:
    """Check a verb's answer and convert it to what is stored and sent; raise `PermanentContract`.

    With `head`, the verb's changes are merged onto a payload that another branch wrote in the meantime.
    """
    verb, workflow = entered.verb, entered.workflow
    tenant, uid = entered.instance.tenant_id, entered.instance_uid
    result = _result(verb, answer)
    workflow.flag_contract.check(result.flags)
    changed = _changes(entered, result.case)
    if entered.task_profile.mapping is not None:
        mapped = entered.task_profile.mapping.state_after(entered.payload.data, _dump(result.case))
        changed = changes(entered.payload.data, mapped)
    enforce_writes(changed, verb.writes, verb.name)
    data = apply(entered.payload.data, changed) if changed else entered.payload.data
    onto, version = entered.payload, entered.base_version
    if head is not None:
        content, version = head.check(entered.seal, tenant=tenant, instance_uid=uid), head.version
        onto = open_payload(content, workflow, entered.upgrades)
        data = merge(entered.payload.data, data, onto.data)
    correlation = _keys(entered, result, data)
    payload = onto.with_step(data, verb=verb.name, at=entered.at, outcome=result.outcome)
    content = payload.to_bytes(budget=workflow.budget)
    seal = entered.seal.seal(content, tenant=tenant, instance_uid=str(uid), version=version + 1)
    return JobResult(content, seal, dict(result.flags), correlation)


def _keys(entered: AdmittedJob, result: Result[Any], data: Mapping[str, Any]) -> dict[str, str]:
    """Return the correlation keys this step writes: those from the verb, and those the data now completes."""
    existing, declared = entered.instance.correlation, entered.workflow.correlation
    if entered.task_profile is not NO_TASK_PROFILE:
        made = entered.task_profile.correlation(data)
        # The profile is authoritative for a key: a verb may return it too, but with no other value.
        check_correlation(made, result.correlation, declared=declared)
        keys = made | dict(result.correlation)
    else:
        ripe = entered.workflow.keys_of(data) if declared else {}
        keys = {name: key for name, key in ripe.items() if name not in existing} | dict(result.correlation)
    check_correlation(existing, keys, declared=declared)
    return keys


def _result(verb: Verb, answer: Any) -> Result[Any]:
    result = verb.result_of(answer)
    if not isinstance(result.flags, Mapping) or not isinstance(result.correlation, Mapping):
        raise PermanentContract(f"{verb.name} answered flags or correlation keys without names", code="AnswerInvalid")
    return result


def _changes(entered: AdmittedJob, case: BaseModel) -> Changes:
    """Return what the verb changed; reject a change that its own model would not accept."""
    verb = entered.verb
    try:
        changed = changes(entered.before, _dump(case))
        if changed:
            written = case.model_dump_json(by_alias=True, round_trip=True, warnings=False)
            verb.model.model_validate_json(written, strict=True)
    except ValidationError as error:
        raise PermanentContract(
            f"{verb.name} answered a case that does not fit its own model ({_misfits(error)})", code="AnswerInvalid"
        ) from None
    except PydanticSerializationError:
        raise PermanentContract(f"{verb.name} answered a case that is not JSON", code="AnswerInvalid") from None
    return changed


def _uuid(value: object) -> UUID | None:
    return _read_uuid(value) if isinstance(value, str) and len(value) <= _LONGEST_UUID else None


@lru_cache(maxsize=4096)
def _read_uuid(text: str) -> UUID | None:
    # The ids of a case come with every job of it.
    try:
        return UUID(text)
    except ValueError:
        return None
