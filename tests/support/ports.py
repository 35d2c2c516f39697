"""Free ports on the loopback address."""

import contextlib
import random
import socket

from tests.support.errors import Broken

LOOPBACK = "127.0.0.1"


# Below the range that the system gives to outgoing connections: a port of that range may be some client's by the time
# its server starts, seconds later.
_PORTS = range(10_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, all different, as of now; which ones is left to chance, since many ask at a time."""
    found: list[int] = []
    with contextlib.ExitStack() as open_until_all_are_found:
        while len(found) < count:
            one = open_until_all_are_found.enter_context(socket.socket())
            port = random.SystemRandom().choice(_PORTS)
            with contextlib.suppress(OSError):
                one.bind((LOOPBACK, port))
                found.append(port)
    return found


def claim(port: int) -> int:
    """The same port, if nobody listens on it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise Broken(f"port {port} on {LOOPBACK} is in use") from error
    return port
