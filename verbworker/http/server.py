"""The server of health, ingress and console: binds, limits, serves, and answers what is under way before it ends."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
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
    """Refuse a body with a length and in chunks: a proxy in front may read its end where we do not."""

    async def refuse_or_serve(scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope.get("headers", ())}
        if b"content-length" in names and b"transfer-encoding" in names:
            refusal = json_error(400, "send Content-Length or Transfer-Encoding, not both", {"Connection": "close"})
            await refusal(scope, receive, send)
            return
        await app(scope, receive, send)

    return refuse_or_serve
