"""Reads request bodies within a size limit and a time limit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

_PATIENCE_S: Final = 30.0
_SWALLOWING_S: Final = 0.5
_MOST_SWALLOWED: Final = 8 * 1024 * 1024
_CLOSE: Final = {"Connection": "close"}


async def read_body(request: Request, limit: int) -> bytes:
    """Return the whole body. Refuses before more than `limit` is in memory, with or without a Content-Length."""
    stream = request.stream()
    if _said(request) > limit:
        await _swallow(stream)
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_PATIENCE_S):
            async for part in stream:
                size += len(part)
                if size > limit:
                    break
                parts.append(part)
    except (TimeoutError, ClientDisconnect) as error:
        raise HTTPException(408, "the body did not arrive in time", _CLOSE) from error
    if size > limit:
        await _swallow(stream)
        raise _too_large(limit)
    return b"".join(parts)


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {limit} bytes", _CLOSE)


def _said(request: Request) -> int:
    length = request.headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else 0


async def _swallow(stream: AsyncIterator[bytes]) -> None:
    """Read on briefly: closing with unread bytes would reset the connection before the client sees the answer."""
    swallowed = 0
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_SWALLOWING_S):
            async for part in stream:
                swallowed += len(part)
                if swallowed > _MOST_SWALLOWED:
                    return
