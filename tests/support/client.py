"""A bare gRPC client of any Zeebe gateway: pyzeebe's stubs, and nothing of ours in between."""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
from pyzeebe.proto import gateway_pb2 as messages
from pyzeebe.proto.gateway_pb2_grpc import GatewayStub

DEADLINE = 30.0


class Client:
    """The few commands tests give an engine directly."""

    def __init__(self, stub: Any) -> None:
        self.stub = stub

    async def deploy(self, name: str, model: bytes) -> int:
        """Deploy one model and return its definition key."""
        resource = messages.Resource(name=f"{name}.bpmn", content=model)
        request = messages.DeployResourceRequest(resources=[resource])
        answer = await self.stub.DeployResource(request, timeout=DEADLINE)
        return int(answer.deployments[0].process.processDefinitionKey)

    async def start(self, process: str, variables: Mapping[str, Any] | None = None) -> int:
        """Start the latest version and return the instance's key."""
        request = messages.CreateProcessInstanceRequest(
            bpmnProcessId=process, version=-1, variables=json.dumps(dict(variables or {}))
        )
        answer = await self.stub.CreateProcessInstance(request, timeout=DEADLINE)
        return int(answer.processInstanceKey)

    async def result(self, process: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Start the latest version, wait for its end, and return its variables."""
        start = messages.CreateProcessInstanceRequest(
            bpmnProcessId=process, version=-1, variables=json.dumps(dict(variables or {}))
        )
        request = messages.CreateProcessInstanceWithResultRequest(request=start, requestTimeout=int(DEADLINE * 1000))
        answer = await self.stub.CreateProcessInstanceWithResult(request, timeout=DEADLINE)
        return dict(json.loads(answer.variables))

    async def activate(self, job_type: str, *, count: int = 1, wait: float = DEADLINE) -> list[Any]:
        """Take up to `count` jobs, waiting for the first as long as `wait` seconds (not at all below zero)."""
        request = messages.ActivateJobsRequest(
            type=job_type,
            worker="tests",
            timeout=60_000,
            maxJobsToActivate=count,
            requestTimeout=round(wait * 1000),
        )
        return [job async for answer in self.stub.ActivateJobs(request, timeout=DEADLINE + 5) for job in answer.jobs]

    async def complete(self, key: int, variables: Mapping[str, Any] | None = None) -> None:
        """Complete a job."""
        request = messages.CompleteJobRequest(jobKey=key, variables=json.dumps(dict(variables or {})))
        await self.stub.CompleteJob(request, timeout=DEADLINE)

    async def throw(self, key: int, code: str) -> None:
        """End a job with an error that the model may catch."""
        request = messages.ThrowErrorRequest(jobKey=key, errorCode=code, errorMessage="thrown by a test")
        await self.stub.ThrowError(request, timeout=DEADLINE)

    async def publish(self, name: str, correlation_key: str, *, ttl: float = 60.0) -> None:
        """Publish a message that is kept for `ttl` seconds."""
        request = messages.PublishMessageRequest(
            name=name, correlationKey=correlation_key, timeToLive=round(ttl * 1000), variables="{}"
        )
        await self.stub.PublishMessage(request, timeout=DEADLINE)


@contextlib.asynccontextmanager
async def connected(address: str) -> AsyncIterator[Client]:
    """A client on a channel of its own, closed at the end."""
    async with grpc.aio.insecure_channel(address) as channel:
        yield Client(GatewayStub(channel))
