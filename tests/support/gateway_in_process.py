"""A gRPC server in this process that speaks Zeebe's protocol as far as a test needs it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from pyzeebe.proto import gateway_pb2 as pb

from tests.support.certificates import Certificate
from tests.support.ports import LOOPBACK

Guard = Callable[[str | None], bool]
Polled = Callable[[Any], AsyncIterator[pb.ActivateJobsResponse]]


async def no_jobs(_: Any) -> AsyncIterator[pb.ActivateJobsResponse]:
    """A poll that finds nothing."""
    yield pb.ActivateJobsResponse()


class InProcessGateway:
    """Answers what it is told to, to whom the guard lets in, and notes each caller's header."""

    def __init__(self, guard: Guard, polled: Polled, pushed: Polled | None = None) -> None:
        self._guard, self._polled, self._pushed = guard, polled, pushed or polled
        self.headers: list[str | None] = []
        self.failed: list[pb.FailJobRequest] = []

    def methods(self) -> Any:
        """What gRPC needs to route calls here."""
        return grpc.method_handlers_generic_handler(
            "gateway_protocol.Gateway",
            {
                "Topology": grpc.unary_unary_rpc_method_handler(
                    self._topology, pb.TopologyRequest.FromString, pb.TopologyResponse.SerializeToString
                ),
                "FailJob": grpc.unary_unary_rpc_method_handler(
                    self._fail, pb.FailJobRequest.FromString, pb.FailJobResponse.SerializeToString
                ),
                "ActivateJobs": grpc.unary_stream_rpc_method_handler(
                    self._activate, pb.ActivateJobsRequest.FromString, pb.ActivateJobsResponse.SerializeToString
                ),
                "StreamActivatedJobs": grpc.unary_stream_rpc_method_handler(
                    self._stream, pb.StreamActivatedJobsRequest.FromString, pb.ActivatedJob.SerializeToString
                ),
            },
        )

    async def _topology(self, _: pb.TopologyRequest, context: Any) -> pb.TopologyResponse:
        await self._let_in(context)
        return pb.TopologyResponse(gatewayVersion="8.6.0", clusterSize=1, partitionsCount=1)

    async def _fail(self, request: pb.FailJobRequest, context: Any) -> pb.FailJobResponse:
        await self._let_in(context)
        self.failed.append(request)
        return pb.FailJobResponse()

    async def _activate(self, _: Any, context: Any) -> AsyncIterator[pb.ActivateJobsResponse]:
        await self._let_in(context)
        async for answer in self._polled(context):
            yield answer

    async def _stream(self, _: Any, context: Any) -> AsyncIterator[pb.ActivatedJob]:
        await self._let_in(context)
        async for answer in self._pushed(context):
            for job in answer.jobs:
                yield job

    async def _let_in(self, context: Any) -> None:
        header = dict(context.invocation_metadata()).get("authorization")
        self.headers.append(header)
        if not self._guard(header):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Expected a good header")


@asynccontextmanager
async def serving(
    *,
    guard: Guard = lambda header: True,
    polled: Polled = no_jobs,
    pushed: Polled | None = None,
    certificate: Certificate | None = None,
    clients: Certificate | None = None,
    port: int = 0,
) -> AsyncIterator[tuple[str, InProcessGateway]]:
    """Serve on this port, else a free one: over TLS with a certificate, and only to `clients` when they are named."""
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    gateway = InProcessGateway(guard, polled, pushed)
    server.add_generic_rpc_handlers((gateway.methods(),))
    port = (
        server.add_insecure_port(f"{LOOPBACK}:{port}") if certificate is None else _secure(server, certificate, clients)
    )
    await server.start()
    try:
        yield f"{LOOPBACK}:{port}", gateway
    finally:
        await server.stop(None)


def _secure(server: Any, certificate: Certificate, clients: Certificate | None) -> Any:
    pair = (certificate.key.read_bytes(), certificate.chain.read_bytes())
    authority = clients.chain.read_bytes() if clients else None
    credentials = grpc.ssl_server_credentials([pair], authority, require_client_auth=clients is not None)
    return server.add_secure_port(f"{LOOPBACK}:0", credentials)
