"""Conversion between our values and Zeebe's protobuf messages.

pyzeebe's messages are those of 8.7. Fields of later versions are written and read by number: protobuf keeps fields it
does not know, and a gateway that does not know them ignores them.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

import orjson
from google.protobuf.unknown_fields import UnknownFieldSet
from pyzeebe.proto import gateway_pb2 as pb

from verbworker.engine.protocol import Ask, Deployed, EngineFacts, Resource, Signal, Start, Started, Variables
from verbworker.errors import CommandInvalid
from verbworker.job.job import Job

_log = logging.getLogger(__name__)
_Message = TypeVar("_Message")

LONGEST_MESSAGE: Final = 4_000
"""Most characters of an error message sent to Zeebe, which would cut at 10,000 itself."""

WITH_LEASE: Final = "withLease"
LEASES_SINCE: Final = (8, 10, 0)
BUSINESS_IDS_SINCE: Final = (8, 9, 0)
# Field numbers of 8.10's gateway.proto.
_WITH_LEASE_OF_POLL: Final = 9
_WITH_LEASE_OF_STREAM: Final = 8
_LEASE_OF_JOB: Final = 21
_BUSINESS_ID: Final = 10
# The answer of a task listener, since 8.8, and its fields.
_RESULT: Final = 3
_DENIED: Final = 1
_DENIED_REASON: Final = 3
_LEASE_OF_COMMAND: Final = {
    pb.CompleteJobRequest: 4,
    pb.FailJobRequest: 6,
    pb.ThrowErrorRequest: 5,
    pb.UpdateJobRetriesRequest: 4,
    pb.UpdateJobTimeoutRequest: 4,
}
_LATER: Final = {
    pb.ActivateJobsRequest: {_WITH_LEASE_OF_POLL: WITH_LEASE},
    pb.CreateProcessInstanceRequest: {_BUSINESS_ID: "businessId"},
    **{kind: {number: "leaseToken"} for kind, number in _LEASE_OF_COMMAND.items()},
}
_VARINT: Final = 0
_LENGTH_DELIMITED: Final = 2


def message(kind: Callable[..., _Message], **fields: Any) -> _Message:
    """Build a request; `CommandInvalid` if a value does not fit Zeebe's types."""
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        # Not the error's own text: protobuf repeats the value.
        raise CommandInvalid(f"{kind.__name__} cannot be built: a value does not fit its field") from error


def text_of(variables: Variables) -> str:
    """Return the variables as a JSON object; `CommandInvalid` if they cannot be serialized."""
    try:
        return orjson.dumps(dict(variables)).decode()
    except TypeError as error:
        raise CommandInvalid(f"variables cannot be written as JSON: {error}") from error


def cut(words: str) -> str:
    """Limit an error message's length and replace characters that cannot be encoded."""
    legible = words.encode(errors="replace").decode()
    return legible if len(legible) <= LONGEST_MESSAGE else legible[: LONGEST_MESSAGE - 6] + " [...]"


def add_text(request: Any, number: int, text: str) -> None:
    """Set a text field by its number, as protobuf writes it."""
    request.MergeFromString(_content(number, text.encode()))


def _add_flag(request: Any, number: int) -> None:
    request.MergeFromString(_flag(number))


def _flag(number: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(1)


def _content(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def add_lease(request: Any, lease_token: str | None) -> Any:
    """Return a job command with the token of the delivery that it answers, if that was leased."""
    if lease_token is not None:
        add_text(request, _LEASE_OF_COMMAND[type(request)], lease_token)
    return request


def denial(job_key: int, reason: str) -> Any:
    """Return the completion of a task listener's job that denies what it was asked."""
    request = message(pb.CompleteJobRequest, jobKey=job_key, variables="{}")
    request.MergeFromString(_content(_RESULT, _flag(_DENIED) + _content(_DENIED_REASON, cut(reason).encode())))
    return request


def read_later(request: Any) -> dict[str, Any]:
    """Return the fields of a request that were written by number, by the names that REST has for them."""
    names, fields = _LATER.get(type(request), {}), {one.field_number: one.data for one in UnknownFieldSet(request)}
    later: dict[str, Any] = {name: _plain(fields[number]) for number, name in names.items() if number in fields}
    if isinstance(request, pb.CompleteJobRequest) and _RESULT in fields:
        # Any message without fields of its own shows what is inside.
        inside = UnknownFieldSet(pb.TopologyRequest.FromString(fields[_RESULT]))
        said = {one.field_number: _plain(one.data) for one in inside}
        later["result"] = {"type": "userTask", "denied": said[_DENIED], "deniedReason": said[_DENIED_REASON]}
    return later


def _plain(value: bytes | int) -> str | bool:
    return value.decode() if isinstance(value, bytes) else bool(value)


def add_lease_of_job(told: pb.ActivatedJob, lease_token: object) -> pb.ActivatedJob:
    """Return an activated job with its token, as REST names it; with none if it was not leased."""
    if isinstance(lease_token, str) and lease_token:
        add_text(told, _LEASE_OF_JOB, lease_token)
    return told


def _lease_token(told: pb.ActivatedJob) -> str | None:
    for one in UnknownFieldSet(told):
        if one.field_number == _LEASE_OF_JOB and one.wire_type == _LENGTH_DELIMITED:
            return str(one.data, "utf-8", "replace") or None
    # Stubs of a later pyzeebe know the name, so the field is not among the unknown ones.
    return getattr(told, "leaseToken", None) or None


def poll(ask: Ask, tenants: tuple[str, ...], limit: int, wait_ms: int, *, with_lease: bool = False) -> Any:
    """Return the request of a long poll; Zeebe reads 0 as its own default, so -1 means no wait."""
    request = message(
        pb.ActivateJobsRequest,
        type=ask.type,
        worker=ask.worker,
        timeout=ask.timeout_ms,
        maxJobsToActivate=limit,
        fetchVariable=ask.variables,
        requestTimeout=wait_ms if wait_ms > 0 else -1,
        tenantIds=ask.tenant_ids or tenants,
    )
    if with_lease:
        _add_flag(request, _WITH_LEASE_OF_POLL)
    return request


def subscription(ask: Ask, tenants: tuple[str, ...], *, with_lease: bool = False) -> Any:
    """Return the request of a job stream."""
    request = message(
        pb.StreamActivatedJobsRequest,
        type=ask.type,
        worker=ask.worker,
        timeout=ask.timeout_ms,
        fetchVariable=ask.variables,
        tenantIds=ask.tenant_ids or tenants,
    )
    if with_lease:
        _add_flag(request, _WITH_LEASE_OF_STREAM)
    return request


def creation(start: Start, tenant: str) -> Any:
    """Return the request for an instance: only the definition key pins a version that cannot be replaced."""
    if start.definition_key is not None:
        which: dict[str, object] = {"processDefinitionKey": start.definition_key}
    else:
        which = {"bpmnProcessId": start.process_id, "version": start.version}
    request = message(
        pb.CreateProcessInstanceRequest,
        variables=text_of(start.variables),
        tenantId=start.tenant_id or tenant,
        **which,
    )
    if start.business_id is not None:
        add_text(request, _BUSINESS_ID, start.business_id)
    return request


def publication(signal: Signal, tenant: str) -> Any:
    """Return the request that publishes a message."""
    return message(
        pb.PublishMessageRequest,
        name=signal.name,
        correlationKey=signal.correlation_key,
        messageId=signal.message_id,
        timeToLive=signal.ttl_ms,
        variables=text_of(signal.variables),
        tenantId=signal.tenant_id or tenant,
    )


def deployment(resources: list[Resource], tenant: str) -> Any:
    """Return the request that deploys resources together."""
    files = [message(pb.Resource, name=resource.name, content=resource.content) for resource in resources]
    return message(pb.DeployResourceRequest, resources=files, tenantId=tenant)


def read_deployments(answer: pb.DeployResourceResponse) -> list[Deployed]:
    """Return the processes of a deployment, without its decisions and forms."""
    processes = (one.process for one in answer.deployments if one.WhichOneof("Metadata") == "process")
    return [Deployed(one.bpmnProcessId, one.version, one.processDefinitionKey, one.resourceName) for one in processes]


def read_start(answer: pb.CreateProcessInstanceResponse) -> Started:
    """Return the created instance."""
    return Started(
        instance_key=answer.processInstanceKey,
        definition_key=answer.processDefinitionKey,
        process_id=answer.bpmnProcessId,
        version=answer.version,
    )


def facts(answer: pb.TopologyResponse) -> EngineFacts:
    """Return the cluster's facts as its gateway reports them."""
    return EngineFacts(answer.gatewayVersion, answer.clusterSize, answer.partitionsCount)


def job(told: pb.ActivatedJob, timeout_ms: int, *, with_lease: bool = False) -> Job:
    """Return an activated job; its activation time is Zeebe's deadline minus the timeout."""
    return Job(
        key=told.key,
        type=told.type,
        retries=told.retries,
        activated_ms=told.deadline - timeout_ms,
        timeout_ms=timeout_ms,
        process_instance_key=told.processInstanceKey,
        element_instance_key=told.elementInstanceKey,
        process_definition_key=told.processDefinitionKey,
        process_version=told.processDefinitionVersion,
        process_id=told.bpmnProcessId,
        element_id=told.elementId,
        tenant_id=told.tenantId,
        variables=_object(told.variables, told.key),
        headers=_object(told.customHeaders, told.key),
        lease_token=_lease_token(told) if with_lease else None,
    )


def _object(text: str, key: int) -> dict[str, Any]:
    # An unreadable job continues without variables, to fail by its contract and leave a frame; raising here would lose
    # the other jobs of the same answer.
    try:
        value = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict):
        return value
    _log.warning("job text is not a JSON object", extra={"job_key": key})
    return {}
