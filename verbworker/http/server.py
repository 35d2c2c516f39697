"""A server that listens on one socket until stopped, and answers the requests under way before it ends."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn

from verbworker.errors import CannotRun

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Habits:
    """How a server runs: concurrent connections, time to drain, and TLS certificate."""

    at_once: int = 256
    drain: timedelta = timedelta(seconds=20)
    tls_certificate: Path | None = None
    tls_key: Path | None = None


class _Server(uvicorn.Server):
    """Uvicorn without signal handlers: the command handles signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield


async def listen(
    app: Any, listener: socket.socket, habits: Habits, stop: asyncio.Event, *, leaving: Callable[[], None]
) -> None:
    """Serve until `stop` is set, then call `leaving` and wait for the last requests."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=habits.at_once,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=round(habits.drain.total_seconds()) or 1,
        ssl_certfile=habits.tls_certificate,
        ssl_keyfile=habits.tls_key,
    )
    server = _Server(config)

    async def leave() -> None:
        await stop.wait()
        leaving()
        server.should_exit = True

    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.serve(sockets=[listener]))
        ending = tasks.create_task(leave())
        _log.info("listening", extra={"address": "{}:{}".format(*listener.getsockname()[:2])})
        await serving
        ending.cancel()


def bound(host: str, port: int, *, advice: str) -> socket.socket:
    """Return a listening socket, or fail with `advice`; uvicorn would end the process without a message."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise CannotRun(f"cannot listen on {host} port {port}: {error.strerror or error}; {advice}") from error


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
