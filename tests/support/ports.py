"""Free ports on the loopback address."""

import contextlib
import socket

from tests.support.errors import Broken

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, all different, as of now."""
    with contextlib.ExitStack() as open_until_all_are_found:
        sockets = [open_until_all_are_found.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def claim(port: int) -> int:
    """The same port, if nobody listens on it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise Broken(f"port {port} on {LOOPBACK} is in use") from error
    return port
