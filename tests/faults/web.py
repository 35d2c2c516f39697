"""One small HTTP request, on asyncio and without a library: the harness and its application need no more."""

import asyncio
import json
from collections.abc import Mapping

LOOPBACK = "127.0.0.1"


async def request(
    method: str,
    address: str,
    path: str,
    body: object = None,
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float = 5.0,
) -> tuple[int, bytes]:
    """Return status and body; raise `OSError`, `TimeoutError` or `ValueError` when there was no whole answer."""
    host, _, port = address.rpartition(":")
    content = b"" if body is None else json.dumps(body).encode()
    fields = {"Host": address, "Content-Length": str(len(content)), "Connection": "close", **(headers or {})}
    if body is not None:
        fields["Content-Type"] = "application/json"
    head = "".join([f"{method} {path} HTTP/1.1\r\n", *(f"{name}: {text}\r\n" for name, text in fields.items()), "\r\n"])
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(head.encode() + content)
            await writer.drain()
            said = await reader.read()
        finally:
            writer.close()
    top, found, rest = said.partition(b"\r\n\r\n")
    if not found:
        raise ValueError("the answer ended early")
    status = int(top.split(None, 2)[1])
    return status, _unchunked(rest) if b"transfer-encoding: chunked" in top.lower() else rest


def _unchunked(text: bytes) -> bytes:
    whole = b""
    while text:
        size, _, text = text.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            break
        whole, text = whole + text[:length], text[length + 2 :]
    return whole
