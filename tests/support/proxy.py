"""A proxy before Postgres that breaks a connection exactly where the test wants it: before or after a statement.

A late statement is the one between: its connection is broken, and the server hears it when the test lets it go on.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from tests.support.ports import LOOPBACK

When = Literal["before", "after", "late"]


@dataclass(slots=True)
class Cut:
    """The next break: at the next message with these words, before the server hears it or after it answered.

    With a port only on the connection that comes to the server from there.
    """

    words: bytes
    when: When
    port: int | None = None
    may_arrive: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def land(self) -> None:
        """Let the server hear a late message, and return when it has answered."""
        self.may_arrive.set()
        async with asyncio.timeout(10):
            await self.answered.wait()


class Proxy:
    """Passes bytes on, both ways, until it is told to break a connection."""

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        self._target = (parts.hostname or LOOPBACK, parts.port or 5432)
        self._parts = parts
        self._cut: Cut | None = None
        self._server: asyncio.Server | None = None
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._most: int | None = None
        self.cuts = 0

    def admit(self, connections: int) -> None:
        """Go away when one more connection is made than these."""
        self._most = connections

    def cut(self, words: str, when: When, *, port: int | None = None) -> Cut:
        """Break the connection over which these words come next, as a peer does that is gone: with a reset."""
        self._cut = Cut(words.encode(), when, port)
        return self._cut

    @property
    def dsn(self) -> str:
        """The address of the database by way of this proxy."""
        login = self._parts.netloc.rpartition("@")[0]
        return urlunsplit(self._parts._replace(netloc=f"{login}@{LOOPBACK}:{self._port}"))

    async def come(self) -> None:
        """Listen, on the same port each time."""
        self._server = await asyncio.start_server(self._serve, LOOPBACK, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    def go_away(self) -> None:
        """Break every connection and take no more, as a server does that is down."""
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._most is not None:
            self._most -= 1
            if self._most < 0:
                self._most = None
                reset(writer)
                self.go_away()
                return
        server_reader, server_writer = await asyncio.open_connection(*self._target)
        self._open.add(writer)
        try:
            async with asyncio.TaskGroup() as pumps:
                back = pumps.create_task(_pump(server_reader, writer))
                await self._forward(reader, writer, server_writer, server_reader, back)
                back.cancel()
        finally:
            self._open.discard(writer)
            reset(writer)
            server_writer.close()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        server: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        back: "asyncio.Task[None]",
    ) -> None:
        port = server.get_extra_info("sockname")[1]
        with suppress(OSError):
            while said := await reader.read(65536):
                cut = self._cut
                if cut is not None and cut.words in said and cut.port in (None, port):
                    self._cut = None
                    self.cuts += 1
                    if cut.when != "before":
                        back.cancel()
                        await asyncio.wait([back])
                        if cut.when == "late":
                            reset(client)
                            await cut.may_arrive.wait()
                        server.write(said)
                        await answers.read(1)
                        cut.answered.set()
                    return
                server.write(said)
                await server.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while said := await reader.read(65536):
            writer.write(said)
            await writer.drain()
        writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a peer does that is gone."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None and not writer.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def proxied(dsn: str) -> AsyncIterator[Proxy]:
    """A running proxy before the server of `dsn`."""
    proxy = Proxy(dsn)
    await proxy.come()
    try:
        yield proxy
    finally:
        proxy.go_away()
