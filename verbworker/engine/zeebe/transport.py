"""The transport of commands and jobs: gRPC, REST, or gRPC with REST where gRPC is switched off."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Container
from contextlib import aclosing
from typing import Any, Final, Protocol

import grpc
from grpc import StatusCode
from pyzeebe.proto import gateway_pb2 as pb

from verbworker.engine.zeebe.auth import Access
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.gateway import Gateway
from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.engine.zeebe.rest_gateway import RestGateway
from verbworker.engine.zeebe.status import Rpc
from verbworker.errors import ContractInvalid, EngineError

_log = logging.getLogger(__name__)

# A cluster whose gRPC answered before is more likely restarting than reconfigured.
_REFUSED_FOR_S: Final = 30.0
# How often a worker on REST looks whether gRPC is there: a gateway may open its REST port first when it starts.
_LOOK_AGAIN_S: Final = 30.0
_LOOK_S: Final = 5.0  # for a look at either port; the first REST answer of a busy gateway took two seconds here


class Transport(Protocol):
    """What sends an engine's calls."""

    @property
    def pushes_jobs(self) -> bool:
        """Whether the engine can push jobs; otherwise they are polled."""

    async def open(self) -> None:
        """Allow calls; the first one connects."""

    async def close(self) -> None:
        """End calls in progress and close the connections."""

    async def send(self, rpc: Rpc, request: Any, *, timeout_s: float, settled: Container[StatusCode] = ()) -> Any:
        """Send a command and return its answer, or None if its status is in `settled`."""

    async def collect(self, rpc: Rpc, request: Any, into: Callable[[Any], None], *, timeout_s: float) -> None:
        """Pass each message of an answer to `into` as it arrives, even shortly after a cancellation."""

    def listen(self, rpc: Rpc, request: Any, unread: list[Any], *, lifetime_s: float) -> AsyncGenerator[Any, None]:
        """Yield pushed messages until the lifetime ends; closing leaves the rest in `unread`."""


def transport(connection: GatewayAddress, access: Access, client: RestClient) -> Transport:
    """Return the transport that the settings ask for."""
    if connection.transport == "rest":
        if connection.rest_url is None:
            raise ContractInvalid("ZEEBE_TRANSPORT=rest needs Zeebe's REST address: set ZEEBE_REST_ADDRESS")
        return RestGateway(client)
    gateway = Gateway(connection, access)
    if connection.transport == "auto" and connection.rest_url is not None:
        return EitherGateway(gateway, RestGateway(client))
    return gateway


class EitherGateway:
    """gRPC, or REST while gRPC is switched off: its port refuses connections, or offers no Zeebe.

    A call that gRPC refused in this way was never performed, so it is sent again over REST.
    """

    def __init__(self, by_grpc: Gateway, by_rest: RestGateway) -> None:
        self._grpc = by_grpc
        self._rest = by_rest
        self._is_rest = False
        self._has_answered = False
        self._refused_since: float | None = None
        self._looked_at = 0.0
        self._choice = asyncio.Lock()

    @property
    def pushes_jobs(self) -> bool:
        """Whether the engine can push jobs: not over REST."""
        return not self._is_rest

    async def open(self) -> None:
        """Allow calls; the first one connects."""
        await self._grpc.open()
        await self._rest.open()

    async def close(self) -> None:
        """End calls in progress and close the connections."""
        await self._rest.close()
        await self._grpc.close()

    async def send(self, rpc: Rpc, request: Any, *, timeout_s: float, settled: Container[StatusCode] = ()) -> Any:
        """Send a command and return its answer, or None if its status is in `settled`."""
        if await self._uses_rest():
            return await self._rest.send(rpc, request, timeout_s=timeout_s, settled=settled)
        try:
            answer = await self._grpc.send(rpc, request, timeout_s=timeout_s, settled=settled)
        except EngineError as error:
            if not await self._changes_after(error):
                raise
            return await self._rest.send(rpc, request, timeout_s=timeout_s, settled=settled)
        self._note_answer()
        return answer

    async def collect(self, rpc: Rpc, request: Any, into: Callable[[Any], None], *, timeout_s: float) -> None:
        """Pass each message of an answer to `into` as it arrives, even shortly after a cancellation."""
        if await self._uses_rest():
            return await self._rest.collect(rpc, request, into, timeout_s=timeout_s)
        try:
            await self._grpc.collect(rpc, request, into, timeout_s=timeout_s)
        except EngineError as error:
            if not await self._changes_after(error):
                raise
            return await self._rest.collect(rpc, request, into, timeout_s=timeout_s)
        self._note_answer()
        return None

    async def listen(
        self, rpc: Rpc, request: Any, unread: list[Any], *, lifetime_s: float
    ) -> AsyncGenerator[Any, None]:
        """Yield pushed messages until the lifetime ends; closing leaves the rest in `unread`."""
        chosen: Gateway | RestGateway = self._rest if self._is_rest else self._grpc
        async with aclosing(chosen.listen(rpc, request, unread, lifetime_s=lifetime_s)) as pushed:
            async for told in pushed:
                yield told

    def _note_answer(self) -> None:
        self._has_answered = True
        self._refused_since = None

    async def _uses_rest(self) -> bool:
        """Return whether to use REST now; looks from time to time whether gRPC is there."""
        now = asyncio.get_running_loop().time()
        if self._is_rest and now - self._looked_at >= _LOOK_AGAIN_S:
            self._looked_at = now
            if await _answers(self._grpc):
                self._is_rest = False
                self._note_answer()
                _log.warning("gRPC is available again; jobs and commands go over gRPC")
        return self._is_rest

    async def _changes_after(self, error: EngineError) -> bool:
        """Return whether REST is used from now on, because gRPC is switched off and REST answers."""
        if not _is_switched_off(error):
            self._refused_since = None
            return False
        now = asyncio.get_running_loop().time()
        if self._refused_since is None:
            self._refused_since = now
        if self._has_answered and now - self._refused_since < _REFUSED_FOR_S:
            return False
        async with self._choice:
            if not self._is_rest and await _answers(self._rest):
                self._is_rest = True
                self._looked_at = asyncio.get_running_loop().time()
                reason = {"reason": str(error)}
                _log.warning("gRPC is switched off; jobs are polled and commands sent over REST", extra=reason)
        return self._is_rest


def _is_switched_off(error: EngineError) -> bool:
    """Return whether a call was certainly not performed, because no Zeebe listens for gRPC at the address."""
    cause = error.__cause__
    if not isinstance(cause, grpc.aio.AioRpcError):
        return False
    if cause.code() is StatusCode.UNIMPLEMENTED:
        return True
    return cause.code() is StatusCode.UNAVAILABLE and "failed to connect" in (cause.details() or "").lower()


async def _answers(gateway: Gateway | RestGateway) -> bool:
    try:
        await gateway.send("Topology", pb.TopologyRequest(), timeout_s=_LOOK_S)
    except EngineError:
        return False
    return True
