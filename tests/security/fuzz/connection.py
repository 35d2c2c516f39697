"""A client that sends a request as it is and counts the answers, on a connection that it keeps."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.support.ports import LOOPBACK


class Connection:
    """One kept connection to a server of this machine."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    async def post(self, path: str, kind: str, body: bytes) -> tuple[int, int]:
        """Send a body; return the status and the size of the answer. A connection that was closed is opened again."""
        try:
            return await self._post(path, kind, body)
        except (ConnectionError, asyncio.IncompleteReadError):
            self._close()
            return await self._post(path, kind, body)

    async def _post(self, path: str, kind: str, body: bytes) -> tuple[int, int]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(LOOPBACK, self._port)
        reader, writer = self._streams
        head = f"POST {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nX-Api-Key: {self._key}\r\nContent-Type: {kind}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        with suppress(ConnectionError):  # a server that refuses early answers before it closes
            await writer.drain()
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        told = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        size = int(told.get("content-length", "0"))
        await reader.readexactly(size)
        if told.get("connection") == "close":
            self._close()
        return int(lines[0].split(" ")[1]), size

    def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
