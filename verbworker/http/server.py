"""The server of health, ingress and console: binds, limits, serves, and answers what is under way before it ends."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from verbworker.errors import CannotRun
from verbworker.http.answers import json_error
from verbworker.http.connections import Connections, Network, make_protocol

_log = logging.getLogger(__name__)

# How long a connection may stay without the head of a request: it counts against the limit all the same.
_LONGEST_IDLE_S: Final = 10.0
# Requests that were sent before the stop are read within it; uvicorn closes a connection without one.
_LAST_ARRIVALS_S: Final = 0.1
# Who sends, from where, and what: of a header that comes twice the first counts here, and the last may count elsewhere.
_ONCE: Final = (
    *(b"authorization", b"x-api-key", b"webhook-id", b"webhook-timestamp", b"webhook-signature"),
    *(b"idempotency-key", b"content-type", b"content-encoding", b"origin", b"sec-fetch-site"),
)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server runs: concurrent connections, time to drain, and TLS certificate.

    One address may have `connections_per_peer`, by default half of all; a proxy, which speaks for many, all of them.
    """

    connections: int
    drain: timedelta
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    longest_idle_s: float = _LONGEST_IDLE_S
    connections_per_peer: int | None = None
    proxies: tuple[Network, ...] = ()


@asynccontextmanager
async def open_server(app: Any, listener: socket.socket, options: ServerOptions) -> AsyncIterator[None]:
    """Serve `app` until the end of the block, then wait for the last answers."""
    per_peer = options.connections_per_peer or max(options.connections // 2, 1)
    connections = Connections(options.connections, per_peer, options.proxies)
    config = uvicorn.Config(
        _refuse_ambiguous(app),
        http=make_protocol(connections, options.longest_idle_s),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        # Connections are limited where they are made; one that makes room is closed a moment after the new one came.
        limit_concurrency=2 * options.connections,
        timeout_keep_alive=round(options.longest_idle_s) or 1,
        timeout_graceful_shutdown=round(options.drain.total_seconds()) or 1,
        ssl_certfile=options.tls_certificate,
        ssl_keyfile=options.tls_key,
    )
    try:
        config.load()
    except OSError as error:
        raise CannotRun(f"cannot use the TLS certificate {options.tls_certificate}: {error}") from error
    # Started by its parts: `serve` would handle signals, which the command does, and wake ten times a second.
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    _log.info("listening", extra={"address": "{}:{}".format(*listener.getsockname()[:2])})
    try:
        yield
    finally:
        await asyncio.sleep(_LAST_ARRIVALS_S)
        await server.shutdown(sockets=[listener])


def bind(host: str, port: int, *, advice: str) -> socket.socket:
    """Return a listening socket, or fail with `advice`; uvicorn would end the process without a message."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=512)
        # Its connections inherit it; asyncio sets it only on sockets that name their protocol. Without it the end of an
        # answer waits for the client to acknowledge its head, which clients delay by 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise CannotRun(f"cannot listen on {host} port {port}: {error.strerror or error}; {advice}") from error


def _refuse_ambiguous(app: ASGIApp) -> ASGIApp:
    """Refuse what a proxy in front may read otherwise: where a body ends, and which of two credentials counts."""

    async def refuse_or_serve(scope: Scope, receive: Receive, send: Send) -> None:
        words = _find_ambiguity([name for name, _ in scope.get("headers", ())])
        if words is not None:
            await json_error(400, words, {"Connection": "close"})(scope, receive, send)
            return
        await app(scope, receive, send)

    return refuse_or_serve


def _find_ambiguity(names: Sequence[bytes]) -> str | None:
    if b"content-length" in names and b"transfer-encoding" in names:
        return "send Content-Length or Transfer-Encoding, not both"
    twice = next((name for name in _ONCE if names.count(name) > 1), None)
    return None if twice is None else f"send {twice.decode().title()} once"
