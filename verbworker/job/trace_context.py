"""The W3C trace context: read from a request or from the program around us, and made for a case that has none."""

import re
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any
from uuid import UUID

TRACEPARENT = re.compile(r"^[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$(?!\n)")
"""A W3C traceparent; the standard makes IDs of zeros invalid."""

_REQUEST: ContextVar[str | None] = ContextVar("verbworker_traceparent", default=None)

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


def format_traceparent(trace_id: int, span_id: int, flags: int) -> str:
    """Return a W3C traceparent."""
    return f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"


def traceparent_of_entry(entry_id: UUID) -> str:
    """Return the traceparent of a case that was started without one: the same in every process."""
    return format_traceparent(entry_id.int, (entry_id.int & (1 << 64) - 1) or 1, 1)


def ambient_traceparent() -> str | None:
    """Return the trace we are called in: of the current OpenTelemetry span, otherwise of the HTTP request; or None.

    Imports nothing: if the program does not use OpenTelemetry, there is no span.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is not None:
        context = api.get_current_span().get_span_context()
        if context.is_valid:
            return format_traceparent(context.trace_id, context.span_id, int(context.trace_flags))
    return _REQUEST.get()


def carry_trace(app: Asgi) -> Asgi:
    """Return the ASGI application with the `traceparent` header of each request as its ambient trace."""

    async def carry(
        scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        given = next((value for name, value in scope.get("headers", ()) if name == b"traceparent"), b"")
        text = given.decode("latin-1")
        token = _REQUEST.set(text if TRACEPARENT.match(text) else None)
        try:
            await app(scope, receive, send)
        finally:
            _REQUEST.reset(token)

    return carry
