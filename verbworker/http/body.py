"""Reads request bodies within a size limit and a time limit."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

_LONGEST_BODY_S: Final = 30.0  # 1 MiB within it needs 35 KB/s
_DRAIN_S: Final = 0.5  # enough for what a client has already sent when it is refused
_MOST_DRAINED: Final = 8 * 1024 * 1024  # bytes read away so that the sender sees the answer
_CLOSE: Final = {"Connection": "close"}


async def read_body(request: Request, limit: int, pay: Callable[[int], None] | None = None) -> bytes:
    """Return the whole body. Refuses before more than `limit` is in memory, with or without a Content-Length.

    A body is read as it is: one that names an encoding was checked as something else by a proxy that decodes it.
    `pay` is called with the size so far, and may refuse the rest by an exception.
    """
    stream = request.stream()
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        await _drain(stream)
        raise HTTPException(415, "send the body as it is, without Content-Encoding", _CLOSE)
    if announced_length(request) > limit:
        await _drain(stream)
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_LONGEST_BODY_S):
            async for part in stream:
                size += len(part)
                if size > limit:
                    break
                if pay is not None:
                    pay(size)
                parts.append(part)
    except HTTPException:
        await _drain(stream)
        raise
    except (TimeoutError, ClientDisconnect) as error:
        raise HTTPException(408, "the body did not arrive in time", _CLOSE) from error
    if size > limit:
        await _drain(stream)
        raise _too_large(limit)
    return b"".join(parts)


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {limit} bytes", _CLOSE)


def announced_length(request: Request) -> int:
    """Return the size that a request says its body has; 0 if it says none."""
    length = request.headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else 0


async def _drain(stream: AsyncIterator[bytes]) -> None:
    """Read on briefly: closing with unread bytes would reset the connection before the client sees the answer."""
    drained = 0
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_DRAIN_S):
            async for part in stream:
                drained += len(part)
                if drained > _MOST_DRAINED:
                    return
