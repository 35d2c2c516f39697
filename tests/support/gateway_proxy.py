"""A proxy before a Zeebe gateway that loses the answer to one request, and may hold that request back."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.ports import LOOPBACK
from tests.support.proxy import reset

_CHUNK = 65536
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEADER = 9
_DATA, _HEADERS, _END_STREAM = 0, 1, 1


class Frame(NamedTuple):
    """One frame of HTTP/2."""

    kind: int
    flags: int
    stream: int
    content: bytes

    @property
    def is_answer(self) -> bool:
        """Whether it is the answer to a request: a message, or the status of one that was refused."""
        return self.kind == _DATA or (self.kind == _HEADERS and bool(self.flags & _END_STREAM))


@dataclass(eq=False, slots=True)
class LostAnswer:
    """One request, known by its bytes, whose connection breaks before its answer is passed on."""

    words: bytes
    is_late: bool
    is_struck: bool = False
    may_arrive: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    answer: bytes = b""

    async def land(self) -> None:
        """Let a late request reach the gateway, and return when the gateway has answered or given the request up."""
        self.may_arrive.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(10):
                await self.answered.wait()


class Frames:
    """HTTP/2 as it goes by: what each frame is, and of which stream."""

    def __init__(self) -> None:
        self._unread = b""

    def read(self, said: bytes) -> list[Frame]:
        """The frames that are complete by now."""
        self._unread = (self._unread + said).removeprefix(_PREFACE)
        frames = []
        while len(self._unread) >= _FRAME_HEADER:
            end = _FRAME_HEADER + int.from_bytes(self._unread[:3])
            if len(self._unread) < end:
                break
            stream = int.from_bytes(self._unread[5:9]) & 0x7FFFFFFF
            frames.append(Frame(self._unread[3], self._unread[4], stream, self._unread[_FRAME_HEADER:end]))
            self._unread = self._unread[end:]
        return frames


class Passage:
    """One connection through the proxy."""

    def __init__(self, proxy: "GatewayProxy", client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._lost: LostAnswer | None = None
        self._stream = 0
        self._asked, self._told = Frames(), Frames()

    async def ask(self, reader: asyncio.StreamReader) -> None:
        """Carry what the client says."""
        with suppress(OSError):
            while said := await reader.read(_CHUNK):
                frames = self._asked.read(said) if self._proxy.is_http2 else [Frame(_DATA, 0, 0, said)]
                lost = self._proxy.lost
                if lost is not None and not lost.is_struck:
                    self._strike(lost, frames)
                if self._lost is not None and self._lost.is_late:
                    reset(self._client)
                    await self._lost.may_arrive.wait()
                    self._server.write(said)
                    return
                self._server.write(said)
                await self._server.drain()
        if self._lost is None:
            self._server.close()

    def _strike(self, lost: LostAnswer, frames: Sequence[Frame]) -> None:
        streams = [frame.stream for frame in frames if frame.kind == _DATA and lost.words in frame.content]
        if streams:
            self._lost, self._stream, lost.is_struck = lost, streams[0], True

    async def answer(self, reader: asyncio.StreamReader) -> None:
        """Carry what the server says, until it answers the request that must not hear it."""
        with suppress(OSError):
            while said := await reader.read(_CHUNK):
                frames = self._told.read(said) if self._proxy.is_http2 else [Frame(_DATA, 0, 0, said)]
                if self._lost is None:
                    self._client.write(said)
                    await self._client.drain()
                elif answers := [frame for frame in frames if frame.stream == self._stream and frame.is_answer]:
                    self._lost.answer = answers[0].content
                    break
        self.end()

    def end(self) -> None:
        """Break both sides; whoever waits for an answer waits no more."""
        if self._lost is not None:
            self._lost.may_arrive.set()
            self._lost.answered.set()
        reset(self._client)
        reset(self._server)


class GatewayProxy:
    """Passes bytes on, both ways; one answer can be lost at a time."""

    def __init__(self, address: str, *, is_http2: bool) -> None:
        host, _, port = address.rpartition(":")
        self._target = host, int(port)
        self.is_http2 = is_http2
        self.lost: LostAnswer | None = None
        self.port = 0
        self._open: dict[asyncio.Task[None], Passage] = {}

    @property
    def address(self) -> str:
        """The gateway by way of this proxy."""
        return f"{LOOPBACK}:{self.port}"

    def cut(self, words: bytes, *, is_late: bool) -> LostAnswer:
        """Lose the answer to the next request that holds these words; a late one reaches the gateway when told to."""
        self.lost = LostAnswer(words, is_late)
        return self.lost

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection to its end."""
        server_reader, server_writer = await asyncio.open_connection(*self._target)
        passage = Passage(self, writer, server_writer)
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = passage
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(passage.ask(reader))
                pumps.create_task(passage.answer(server_reader))
        finally:
            del self._open[task]
            passage.end()

    async def end(self) -> None:
        """Break what is open, and return when none of it is left."""
        for passage in self._open.values():
            passage.end()
        if self._open:
            await asyncio.wait(list(self._open), timeout=5)


@asynccontextmanager
async def proxied_gateway(address: str, *, is_http2: bool = True) -> AsyncIterator[GatewayProxy]:
    """A running proxy before a gateway."""
    proxy = GatewayProxy(address, is_http2=is_http2)
    server = await asyncio.start_server(proxy.serve, LOOPBACK, 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
