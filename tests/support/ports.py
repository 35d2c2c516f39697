"""Free ports on the loopback address."""

import collections
import random
import socket
import sys

from tests.support.errors import Broken

LOOPBACK = "127.0.0.1"


# Below the range that the system gives to outgoing connections: a port of that range may be some client's by the time
# its server starts, seconds later.
_PORTS = range(10_000, 32_000)
# How many ports a process keeps for itself: several fault runs' worth, so that a server that is killed and started
# again finds its port free, and few enough for the open files of a process.
_KEPT = 256
_reservations: collections.deque[socket.socket] = collections.deque(maxlen=_KEPT)


def free_ports(count: int) -> list[int]:
    """Return different ports that nothing listens on, reserved for this process among all runs of these tests.

    A server binds its port seconds later, and binds it again after a fault: without the reservation another test of the
    same or of a parallel run may have taken it meanwhile.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().choice(_PORTS)
        if port not in found and _reserve(port):
            found.append(port)
    return found


def _reserve(port: int) -> bool:
    """Reserve a port if it is free. The reservation ends with the process, by whatever it ends, and leaves no file."""
    name = None
    if sys.platform == "linux":
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0verbworker-test-port-{port}")
        except OSError:
            name.close()
            return False
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            if name is not None:
                name.close()
            return False
    if name is not None:
        _reservations.append(name)
    return True


def claim(port: int) -> int:
    """The same port, if nobody listens on it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise Broken(f"port {port} on {LOOPBACK} is in use") from error
    return port
