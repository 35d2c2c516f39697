"""The calls of a gateway over REST: the same requests and answers as over gRPC, sent as JSON."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from grpc import StatusCode
from pyzeebe.proto import gateway_pb2 as pb

from verbworker.engine.known_faults import version_number
from verbworker.engine.protocol import Resource
from verbworker.engine.zeebe import wire
from verbworker.engine.zeebe.job_stream import linger
from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.engine.zeebe.rest_status import HTTP_STATUS
from verbworker.engine.zeebe.status import Rpc
from verbworker.errors import CommandInvalid, EngineUnavailable
from verbworker.retrying import REST_POLLS

_LAST_WORDS_S: Final = 0.25  # for jobs that are on the wire when a poll is cancelled
# REST refuses to set no variables, so an instance is looked for by a modification that no model can take.

_Body = dict[str, Any]
_Route = Callable[[Any], tuple[str, str, _Body | None]]


@dataclass(slots=True)
class _Idle:
    """How often in a row a type had no job, and when to ask for it again."""

    polls: int = 0
    next_at: float = 0.0


class RestGateway:
    """Stands in for `Gateway` where a cluster offers no gRPC. Jobs are polled: REST has no streams."""

    def __init__(self, client: RestClient) -> None:
        self._client = client
        self._version: tuple[int, int, int] | None = None
        self._idle: dict[str, _Idle] = {}

    @property
    def pushes_jobs(self) -> bool:
        """Whether the engine can push jobs: not over REST."""
        return False

    async def open(self) -> None:
        """Allow calls; the first one connects."""
        await self._client.open()

    async def close(self) -> None:
        """Close the connections; calls in progress end with `EngineUnavailable`."""
        await self._client.close()

    async def send(self, rpc: Rpc, request: Any, *, timeout_s: float, settled: Container[StatusCode] = ()) -> Any:
        """Send a command and return its answer, or None if its status is in `settled`."""
        if rpc == "DeployResource":
            return await self._deploy(request)
        method, path, body = await self._route(rpc, request)
        statuses = {HTTP_STATUS[code] for code in HTTP_STATUS if code in settled}
        answer = await self._client.call(method, path, body, what=rpc, settled=statuses, timeout_s=timeout_s)
        return _READ[rpc](_object(answer, rpc)) if rpc in _READ else None

    async def collect(self, rpc: Rpc, request: Any, into: Callable[[Any], None], *, timeout_s: float) -> None:
        """Pass activated jobs to `into`, even shortly after a cancellation.

        A long poll over REST ends whenever any client polls, and its jobs may go to a closed connection: so the
        requested wait is spent here, between short polls, each with the deadline of a command. A type that had no job
        lately is polled as seldom by the next call.
        """
        clock = asyncio.get_running_loop().time
        ends = clock() + max(request.requestTimeout, 0) / 1000
        idle = self._idle.setdefault(request.type, _Idle())
        while True:
            left = ends - clock()
            if left > 0 and idle.next_at > clock():
                await asyncio.sleep(min(idle.next_at - clock(), left))
            jobs = await linger(self._poll(rpc, request, into), _LAST_WORDS_S)
            idle.polls = 0 if jobs else idle.polls + 1
            idle.next_at = clock() + (REST_POLLS.after(idle.polls) if idle.polls else 0.0)
            if jobs or clock() >= ends:
                return

    async def listen(
        self, rpc: Rpc, request: Any, unread: list[Any], *, lifetime_s: float
    ) -> AsyncGenerator[Any, None]:
        """Refuse: REST has no streams."""
        raise CommandInvalid(f"{rpc} needs gRPC: over REST jobs are polled")
        yield  # what makes this a generator

    async def _poll(self, rpc: Rpc, request: Any, into: Callable[[Any], None]) -> int:
        method, path, body = await self._route(rpc, request)
        answer = await self._client.call(method, path, body, what=rpc)
        read = _READ[rpc](_object(answer, rpc))
        into(read)
        return len(read.jobs)

    async def _route(self, rpc: Rpc, request: Any) -> tuple[str, str, _Body | None]:
        method, path, body = _ROUTES[rpc](request)
        later = wire.read_later(request)
        # REST refuses a field that it does not know. A token came from this cluster, so it knows that one.
        if wire.WITH_LEASE in later and not await self._has_leases():
            del later[wire.WITH_LEASE]
        return method, path, {**(body or {}), **later} if later else body

    async def _has_leases(self) -> bool:
        if self._version is None:
            answer = _object(await self._client.call("GET", "/topology", what="Topology"), "Topology")
            self._version = version_number(str(answer.get("gatewayVersion"))) or (0, 0, 0)
        return self._version >= wire.LEASES_SINCE

    async def _deploy(self, request: Any) -> Any:
        files = [Resource(one.name, one.content) for one in request.resources]
        fields = {"tenantId": request.tenantId} if request.tenantId else {}
        answer = await self._client.upload("/deployments", files, fields, what="DeployResource")
        return _deployment(_object(answer, "DeployResource"))


# ---- requests --------------------------------------------------------------------------------------------------------


def _variables(text: str) -> object:
    return orjson.Fragment(text or "{}")  # written as JSON already


def _without_blanks(**fields: object) -> _Body:
    """Return the fields that are set: REST takes an empty tenant or list for a wrong one."""
    return {name: value for name, value in fields.items() if value not in ("", [], None)}


def _activation(request: Any) -> tuple[str, str, _Body | None]:
    body = _without_blanks(
        type=request.type,
        worker=request.worker,
        timeout=request.timeout,
        maxJobsToActivate=request.maxJobsToActivate,
        requestTimeout=-1,
        fetchVariable=list(request.fetchVariable),
        tenantIds=list(request.tenantIds),
    )
    return "POST", "/jobs/activation", body


def _completion(request: Any) -> tuple[str, str, _Body | None]:
    return "POST", f"/jobs/{request.jobKey}/completion", {"variables": _variables(request.variables)}


def _failure(request: Any) -> tuple[str, str, _Body | None]:
    body = {"retries": request.retries, "errorMessage": request.errorMessage, "retryBackOff": request.retryBackOff}
    return "POST", f"/jobs/{request.jobKey}/failure", body


def _error(request: Any) -> tuple[str, str, _Body | None]:
    body = {"errorCode": request.errorCode, "errorMessage": request.errorMessage}
    return "POST", f"/jobs/{request.jobKey}/error", body


def _timeout(request: Any) -> tuple[str, str, _Body | None]:
    return "PATCH", f"/jobs/{request.jobKey}", {"changeset": {"timeout": request.timeout}}


def _retries(request: Any) -> tuple[str, str, _Body | None]:
    return "PATCH", f"/jobs/{request.jobKey}", {"changeset": {"retries": request.retries}}


def _creation(request: Any) -> tuple[str, str, _Body | None]:
    which: _Body = {"processDefinitionKey": str(request.processDefinitionKey)}
    if not request.processDefinitionKey:
        which = {"processDefinitionId": request.bpmnProcessId, "processDefinitionVersion": request.version}
    body = {**which, "variables": _variables(request.variables), **_without_blanks(tenantId=request.tenantId)}
    return "POST", "/process-instances", body


def _publication(request: Any) -> tuple[str, str, _Body | None]:
    body = {
        "name": request.name,
        "correlationKey": request.correlationKey,
        "timeToLive": request.timeToLive,
        **_without_blanks(messageId=request.messageId),
        "variables": _variables(request.variables),
        **_without_blanks(tenantId=request.tenantId),
    }
    return "POST", "/messages/publication", body


def _variables_update(request: Any) -> tuple[str, str, _Body | None]:
    body = {"variables": _variables(request.variables), "local": request.local}
    return "PUT", f"/element-instances/{request.elementInstanceKey}/variables", body


def _modification(request: Any) -> tuple[str, str, _Body | None]:
    instructions = [
        _without_blanks(elementId=one.elementId, ancestorElementInstanceKey=str(one.ancestorElementInstanceKey or ""))
        for one in request.activateInstructions
    ]
    path = f"/process-instances/{request.processInstanceKey}/modification"
    return "POST", path, {"activateInstructions": instructions}


_ROUTES: Final[Mapping[str, _Route]] = {
    "ActivateJobs": _activation,
    "CancelProcessInstance": lambda r: ("POST", f"/process-instances/{r.processInstanceKey}/cancellation", {}),
    "CompleteJob": _completion,
    "CreateProcessInstance": _creation,
    "FailJob": _failure,
    "ModifyProcessInstance": _modification,
    "PublishMessage": _publication,
    "ResolveIncident": lambda r: ("POST", f"/incidents/{r.incidentKey}/resolution", {}),
    "SetVariables": _variables_update,
    "ThrowError": _error,
    "Topology": lambda _: ("GET", "/topology", None),
    "UpdateJobRetries": _retries,
    "UpdateJobTimeout": _timeout,
}


# ---- answers ---------------------------------------------------------------------------------------------------------


def _topology(answer: _Body) -> Any:
    return pb.TopologyResponse(
        gatewayVersion=str(answer["gatewayVersion"]),
        clusterSize=int(answer["clusterSize"]),
        partitionsCount=int(answer["partitionsCount"]),
    )


def _creation_answer(answer: _Body) -> Any:
    return pb.CreateProcessInstanceResponse(
        processDefinitionKey=int(answer["processDefinitionKey"]),
        bpmnProcessId=str(answer["processDefinitionId"]),
        version=int(answer["processDefinitionVersion"]),
        processInstanceKey=int(answer["processInstanceKey"]),
    )


def _deployment_answer(answer: _Body) -> Any:
    processes = (one.get("processDefinition") for one in answer["deployments"])
    return pb.DeployResourceResponse(
        deployments=[
            pb.Deployment(
                process=pb.ProcessMetadata(
                    bpmnProcessId=str(one["processDefinitionId"]),
                    version=int(one["processDefinitionVersion"]),
                    processDefinitionKey=int(one["processDefinitionKey"]),
                    resourceName=str(one["resourceName"]),
                )
            )
            for one in processes
            if one is not None
        ]
    )


def _jobs(answer: _Body) -> Any:
    return pb.ActivateJobsResponse(jobs=[_job(one) for one in answer["jobs"]])


def _job(fields: _Body) -> Any:
    job = pb.ActivatedJob(
        key=int(fields["jobKey"] if "jobKey" in fields else fields["key"]),  # 8.6 and 8.7 name it so
        type=fields["type"],
        processInstanceKey=int(fields["processInstanceKey"]),
        bpmnProcessId=fields["processDefinitionId"],
        processDefinitionVersion=int(fields["processDefinitionVersion"]),
        processDefinitionKey=int(fields["processDefinitionKey"]),
        elementId=fields["elementId"],
        elementInstanceKey=int(fields["elementInstanceKey"]),
        customHeaders=orjson.dumps(fields.get("customHeaders") or {}).decode(),
        worker=fields.get("worker") or "",
        retries=int(fields["retries"]),
        deadline=int(fields["deadline"]),
        variables=orjson.dumps(fields.get("variables") or {}).decode(),
        tenantId=fields.get("tenantId") or "",
    )
    return wire.add_lease_of_job(job, fields.get("leaseToken"))


def _readable(read: Callable[[_Body], Any], rpc: str) -> Callable[[_Body], Any]:
    def read_or_refuse(answer: _Body) -> Any:
        try:
            return read(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EngineUnavailable(f"Zeebe answered {rpc} over REST in a form that is not known") from error

    return read_or_refuse


_READ: Final[Mapping[str, Callable[[_Body], Any]]] = {
    rpc: _readable(read, rpc)
    for rpc, read in (
        ("ActivateJobs", _jobs),
        ("CreateProcessInstance", _creation_answer),
        ("DeployResource", _deployment_answer),
        ("Topology", _topology),
    )
}
_deployment = _READ["DeployResource"]


def _object(answer: Any, rpc: str) -> _Body:
    if not isinstance(answer, dict):
        raise EngineUnavailable(f"Zeebe answered {rpc} over REST without an object")
    return answer


async def correlate(client: RestClient, name: str, correlation_key: str, variables: object, tenant: str) -> int | None:
    """Deliver a message to a current subscriber; return its instance key, or None without one. gRPC offers it not."""
    body = {"name": name, "correlationKey": correlation_key, "variables": variables, **_without_blanks(tenantId=tenant)}
    what = "the correlation of a message"
    answer = await client.call("POST", "/messages/correlation", body, what=what, settled=(404,))
    if answer is None:
        return None
    try:
        return int(answer["processInstanceKey"])
    except (KeyError, TypeError, ValueError) as error:
        raise EngineUnavailable("Zeebe correlated a message and did not say with which instance") from error
