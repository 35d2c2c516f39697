"""The server of health, ingress and console: binds, limits, serves, and answers what is under way before it ends."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from verbworker.errors import CannotRun

_log = logging.getLogger(__name__)

# How long a connection may stay without a request: it counts against the limit all the same.
_LONGEST_IDLE_S: Final = 15.0
# Requests that were sent before the stop are read within it; uvicorn closes a connection without one.
_LAST_ARRIVALS_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server runs: concurrent connections, time to drain, and TLS certificate."""

    connections: int
    drain: timedelta
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    longest_idle_s: float = _LONGEST_IDLE_S


@asynccontextmanager
async def open_server(app: Any, listener: socket.socket, options: ServerOptions) -> AsyncIterator[None]:
    """Serve `app` until the end of the block, then wait for the last answers."""
    config = uvicorn.Config(
        app,
        http=_protocol(options.longest_idle_s),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=options.connections,
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
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise CannotRun(f"cannot listen on {host} port {port}: {error.strerror or error}; {advice}") from error


def _protocol(longest_idle_s: float) -> type[H11Protocol]:
    class BoundedProtocol(H11Protocol):
        """Closes a connection on which no request arrives: a few of them could otherwise use up the limit."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
            """Expect a request."""
            super().connection_made(transport)
            self._expect_head()

        def handle_events(self) -> None:
            """Handle what has arrived; called after each answer as well."""
            self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            super().handle_events()
            self._expect_head()

        def _expect_head(self) -> None:
            if self.conn.their_state is not h11.IDLE:
                if self._deadline is not None:
                    self._deadline.cancel()
                self._deadline = None
            elif self._deadline is None:
                self._deadline = self.loop.call_later(longest_idle_s, self.transport.close)

    return BoundedProtocol
