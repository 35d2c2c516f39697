"""What an 8.10 engine answered, word for word, and a gRPC server on loopback that answers the same."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.unknown_fields import UnknownFieldSet
from pyzeebe.proto import gateway_pb2 as pb

from tests.support.ports import LOOPBACK
from verbworker.engine.zeebe.wire import add_text

RECORDING = Path(__file__).parents[1] / "conformance" / "recorded" / "commands-8.10.json"

# The numbers of 8.10's gateway.proto, which pyzeebe's messages lack.
_LATER: dict[str, dict[int, str]] = {
    "ActivateJobs": {9: "withLease"},
    "StreamActivatedJobs": {8: "withLease"},
    "CompleteJob": {4: "leaseToken"},
    "FailJob": {6: "leaseToken"},
    "ThrowError": {5: "leaseToken"},
    "UpdateJobRetries": {4: "leaseToken"},
    "UpdateJobTimeout": {4: "leaseToken"},
    "CreateProcessInstance": {10: "businessId"},
}
_LEASE_OF_JOB = 21
_STREAMS = ("ActivateJobs", "StreamActivatedJobs")
_PLAIN = ("Topology", "DeployResource", "CancelProcessInstance", "PublishMessage", "ResolveIncident")


@dataclass(frozen=True, slots=True)
class Said:
    """One recorded exchange, over gRPC or REST."""

    number: int
    name: str
    transport: str
    run: str
    request: Any = None
    response: Any = None
    note: str | None = None
    rpc: str = ""
    code: str | None = None
    details: str | None = None
    method: str = ""
    path: str = ""
    status: int = 0
    content_type: str | None = None

    @property
    def lease_token(self) -> str | None:
        """The token that was sent."""
        return self.request.get("leaseToken") if isinstance(self.request, dict) else None

    @property
    def reason(self) -> str:
        """Why it was refused, in the engine's words."""
        if self.transport == "gRPC":
            return self.details or ""
        return str(self.response.get("detail", "")) if isinstance(self.response, dict) else ""


def recorded() -> list[Said]:
    """Every exchange in the order it was recorded."""
    return [Said(number, **one) for number, one in enumerate(json.loads(RECORDING.read_bytes()))]


def over_grpc(*rpcs: str) -> Iterator[Said]:
    """The exchanges of these calls that have an answer."""
    return (one for one in recorded() if one.transport == "gRPC" and one.rpc in rpcs and one.code is not None)


def over_rest(method: str, word: str) -> Iterator[Said]:
    """The REST exchanges of a method whose path holds a word, and that were answered."""
    found = (one for one in recorded() if one.transport == "REST" and one.method == method and word in one.path)
    return (one for one in found if one.status)


@dataclass(slots=True)
class RecordedGateway:
    """Answers every call with one recorded exchange, and keeps what it was asked, by name."""

    said: Said
    asked: list[dict[str, Any]] = field(default_factory=list)

    def methods(self) -> Any:
        """What gRPC needs to route calls here: the bytes as they are."""
        calls = {
            rpc: grpc.unary_stream_rpc_method_handler(partial(self._stream, rpc))
            if rpc in _STREAMS
            else grpc.unary_unary_rpc_method_handler(partial(self._answer, rpc))
            for rpc in (*_LATER, *_PLAIN)
        }
        return grpc.method_handlers_generic_handler("gateway_protocol.Gateway", calls)

    async def _answer(self, rpc: str, content: bytes, context: Any) -> bytes:
        if rpc == "Topology" and self.said.rpc != "Topology":
            return bytes(pb.TopologyResponse(gatewayVersion="8.10.0-SNAPSHOT").SerializeToString())
        await self._hear(rpc, content, context)
        message = getattr(pb, f"{rpc}Response")()
        ParseDict(self.said.response or {}, message, ignore_unknown_fields=True)
        return bytes(message.SerializeToString())

    async def _stream(self, rpc: str, content: bytes, context: Any) -> AsyncIterator[bytes]:
        if rpc != self.said.rpc:
            return  # nothing to give
        await self._hear(rpc, content, context)
        for answer in self.said.response if isinstance(self.said.response, list) else [self.said.response]:
            if self.said.rpc == "StreamActivatedJobs":
                yield job_message(answer).SerializeToString()
            else:
                yield pb.ActivateJobsResponse(jobs=map(job_message, answer["jobs"])).SerializeToString()

    async def _hear(self, rpc: str, content: bytes, context: Any) -> None:
        self.asked.append(_by_name(rpc, content))
        if self.said.code != "OK":
            await context.abort(getattr(grpc.StatusCode, str(self.said.code)), self.said.details)


@asynccontextmanager
async def answering(said: Said) -> AsyncIterator[tuple[str, RecordedGateway]]:
    """Serve one recorded exchange on a free port."""
    server = grpc.aio.server()
    gateway = RecordedGateway(said)
    server.add_generic_rpc_handlers((gateway.methods(),))
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    try:
        yield f"{LOOPBACK}:{port}", gateway
    finally:
        await server.stop(None)


def job_message(job: Mapping[str, Any]) -> pb.ActivatedJob:
    """A recorded job as 8.10 writes it, with its token under its number."""
    told = pb.ActivatedJob()
    ParseDict(dict(job), told, ignore_unknown_fields=True)
    if "leaseToken" in job:
        add_text(told, _LEASE_OF_JOB, job["leaseToken"])
    return told


def _repeated(values: Any) -> list[Any]:
    """A list as the recording has it: files by name, with their content in base64."""
    return [
        {"name": value.name, "content": b64encode(value.content).decode()} if isinstance(value, pb.Resource) else value
        for value in values
    ]


def _by_name(rpc: str, content: bytes) -> dict[str, Any]:
    """A request as the recording names its fields: those that were set, keys and times as text."""
    request = getattr(pb, f"{rpc}Request").FromString(content)
    found: dict[str, Any] = {}
    for descriptor, value in request.ListFields():
        is_long = descriptor.type == descriptor.TYPE_INT64
        found[descriptor.name] = str(value) if is_long else _repeated(value) if descriptor.is_repeated else value
    for one in UnknownFieldSet(request):
        data = one.data
        found[_LATER[rpc][one.field_number]] = data.decode() if isinstance(data, bytes) else bool(data)
    return found
