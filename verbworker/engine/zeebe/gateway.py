"""The gRPC calls of a gateway: each with an authentication header and a deadline, errors translated."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import grpc
from grpc import StatusCode
from pyzeebe.proto.gateway_pb2_grpc import GatewayStub

from verbworker.background.outages import ENGINE
from verbworker.engine.zeebe.auth import Access, Header, access
from verbworker.engine.zeebe.channel import open_channel
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.job_stream import JobStream, linger
from verbworker.engine.zeebe.status import Rpc, translate
from verbworker.errors import EngineUnavailable

_LAST_WORDS_S: Final = 0.25  # for jobs that are on the wire when a poll is cancelled
# By then the stream has been read and closed, unless this process is suspended.
_STREAM_GRACE_S: Final = 2.0

_Answer = TypeVar("_Answer")
_Metadata = tuple[Header, ...] | None


class Gateway:
    """A channel to a gateway. Nothing is sent twice, except a call rejected for an expired token."""

    def __init__(self, connection: GatewayAddress, credentials: Access | None = None) -> None:
        self._connection = connection
        self._access = credentials or access(connection)
        self._channel: Any = None  # grpc ships no types
        self._stub: Any = None

    @property
    def pushes_jobs(self) -> bool:
        """Whether the engine can push jobs."""
        return True

    async def open(self) -> None:
        """Create the channel; the first call connects it."""
        if self._channel is None:
            self._channel = open_channel(self._connection)
            self._stub = GatewayStub(self._channel)

    async def close(self) -> None:
        """Close the channel; calls in progress end with `EngineUnavailable`."""
        channel, self._channel, self._stub = self._channel, None, None
        if channel is not None:
            await channel.close()

    async def send(self, rpc: Rpc, request: Any, *, timeout_s: float, settled: Container[StatusCode] = ()) -> Any:
        """Send a command and return its answer, or None if its status is in `settled`."""

        async def attempt(metadata: _Metadata) -> Any:
            try:
                return await self._call(rpc)(request, timeout=timeout_s, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                if error.code() in settled:
                    return None
                raise

        answer = await self._authorise(rpc, attempt)
        ENGINE.note_answer()
        return answer

    async def collect(self, rpc: Rpc, request: Any, into: Callable[[Any], None], *, timeout_s: float) -> None:
        """Pass each message of an answer to `into` as it arrives, even shortly after a cancellation."""

        async def attempt(metadata: _Metadata) -> None:
            async for told in self._call(rpc)(request, timeout=timeout_s, metadata=metadata):
                into(told)

        await self._authorise(rpc, lambda metadata: linger(attempt(metadata), _LAST_WORDS_S))
        ENGINE.note_answer()

    async def listen(
        self, rpc: Rpc, request: Any, unread: list[Any], *, lifetime_s: float
    ) -> AsyncGenerator[Any, None]:
        """Yield pushed messages until the lifetime ends; closing leaves the rest in `unread`."""
        ends = asyncio.get_running_loop().time() + lifetime_s
        pushes: JobStream | None = None

        async def first(metadata: _Metadata) -> Any:
            nonlocal pushes
            # The deadline is for the gateway, which then ends the stream even if this process is suspended.
            deadline = lifetime_s + _STREAM_GRACE_S
            pushes = JobStream(self._call(rpc)(request, timeout=deadline, metadata=metadata), ends)
            return await pushes.read()

        try:
            # A gateway sends nothing before the first job, so a rejected token shows only here.
            told = await self._authorise(rpc, first)
            while told is not None and pushes is not None:
                yield told
                with self._our_words(rpc):
                    told = await pushes.read()
        finally:
            if pushes is not None:
                with suppress(EngineUnavailable), self._our_words(rpc):
                    unread.extend(await pushes.rest())

    def _call(self, rpc: Rpc) -> Any:
        if self._stub is None:
            raise EngineUnavailable(f"{rpc} was not sent: the Zeebe engine is not open")
        return getattr(self._stub, rpc)

    async def _authorise(self, rpc: Rpc, attempt: Callable[[_Metadata], Awaitable[_Answer]]) -> _Answer:
        header = await self._access.header()
        with self._our_words(rpc):
            try:
                return await attempt(_metadata(header))
            except grpc.aio.AioRpcError as error:
                if error.code() is not StatusCode.UNAUTHENTICATED or not self._access.reject(header):
                    raise
            return await attempt(_metadata(await self._access.header()))

    @contextmanager
    def _our_words(self, rpc: Rpc) -> Iterator[None]:
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise translate(error, rpc) from error
        except grpc.aio.BaseError as error:
            raise EngineUnavailable(f"{rpc} was not sent: the channel is closed") from error
        except asyncio.CancelledError as error:
            # A closing channel cancels its calls; that must not look like the end of our task.
            if self._stub is None and not _is_being_cancelled():
                raise EngineUnavailable(f"{rpc} was cut off: the Zeebe engine was closed") from error
            raise


def _metadata(header: Header | None) -> _Metadata:
    return (header,) if header is not None else None


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
