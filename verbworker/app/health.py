"""A minimal HTTP server for /live, /ready and /metrics, meant only for probes and scrapers."""

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from verbworker.errors import CannotRun
from verbworker.metrics import REGISTRY

_log = logging.getLogger(__name__)

_LONGEST_REQUEST = 8_192
_MOST_SWALLOWED = 1_000_000
_SWALLOWING = 0.5
_PATIENCE = 5.0
_AT_ONCE = 32
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class Probes(Protocol):
    """The checks behind /live and /ready: each by name, None when it is well, else a few words."""

    def live(self) -> Mapping[str, str | None]: ...
    async def ready(self) -> Mapping[str, str | None]: ...


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The response to a request."""

    status: int
    body: bytes
    kind: str = "application/json"


class Health:
    """The health server. Use it with `async with`; it answers until the block ends."""

    def __init__(self, host: str, port: int, probes: Probes, *, patience: float = _PATIENCE) -> None:
        self._host = host
        self._port = port
        self._probes = probes
        self._patience = patience
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Return where it listens, once it is open."""
        if self._server is None:
            return self._host, self._port
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    async def __aenter__(self) -> Self:
        """Start listening."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=_LONGEST_REQUEST)
        except OSError as error:
            raise CannotRun(
                f"cannot serve health on {self._host} port {self._port}: {error.strerror or error};"
                " choose another by VERBWORKER_HTTP_PORT, or 0 for none"
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening, and wait for responses in progress as long as one may take."""
        if self._server is not None:
            self._server.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                await self._idle.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        self._idle.clear()
        try:
            method, answer = await self._respond(reader)
            writer.write(_format_response(answer, with_body=method != "HEAD"))
            async with asyncio.timeout(self._patience):
                await writer.drain()
        except (TimeoutError, OSError) as error:
            _log.debug("a health answer was not taken", extra={"reason": type(error).__name__})
        finally:
            writer.close()
            self._open -= 1
            if self._open == 0:
                self._idle.set()

    async def _respond(self, reader: asyncio.StreamReader) -> tuple[str, ProbeAnswer]:
        is_late = self._open > _AT_ONCE
        try:
            async with asyncio.timeout(self._patience):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            return "GET", _build_error(408, "the request did not end")
        except asyncio.LimitOverrunError:
            await _swallow(reader)
            return "GET", _build_error(431, "the request is too long")
        except asyncio.IncompleteReadError:
            return "GET", _build_error(400, "the request is incomplete")
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return "GET", _build_error(400, "this is no HTTP/1 request")
        method = words[0].decode("latin-1")
        if is_late:
            return method, _build_error(503, "too many requests at once")
        try:
            async with asyncio.timeout(self._patience):
                return method, await self.answer(method, words[1].decode("latin-1").partition("?")[0])
        except TimeoutError:
            return method, _build_error(503, "no answer in time")

    async def answer(self, method: str, path: str) -> ProbeAnswer:
        """Return the response to a request for `path`."""
        if path not in ("/live", "/ready", "/metrics"):
            return _build_error(404, "there are /live, /ready and /metrics")
        if method not in ("GET", "HEAD"):
            return _build_error(405, "only GET and HEAD")
        if path == "/metrics":
            return ProbeAnswer(200, generate_latest(REGISTRY), CONTENT_TYPE_LATEST)
        return _judge(self._probes.live() if path == "/live" else await self._probes.ready())


async def _swallow(reader: asyncio.StreamReader) -> None:
    """Keep reading briefly: closing with unread bytes would reset the connection before the response is seen."""
    swallowed = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_SWALLOWING):
            while swallowed < _MOST_SWALLOWED and (more := await reader.read(_LONGEST_REQUEST)):
                swallowed += len(more)


def _judge(troubles: Mapping[str, str | None]) -> ProbeAnswer:
    is_well = all(trouble is None for trouble in troubles.values())
    body = {"ok": is_well, "checks": {name: trouble or "ok" for name, trouble in troubles.items()}}
    return ProbeAnswer(200 if is_well else 503, json.dumps(body).encode() + b"\n")


def _build_error(status: int, words: str) -> ProbeAnswer:
    return ProbeAnswer(status, json.dumps({"error": words}).encode() + b"\n")


def _format_response(answer: ProbeAnswer, *, with_body: bool) -> bytes:
    allow = "Allow: GET, HEAD\r\n" if answer.status == 405 else ""
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\nContent-Type: {answer.kind}\r\n"
        f"Content-Length: {len(answer.body)}\r\nCache-Control: no-store\r\n{allow}Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (answer.body if with_body else b"")
