"""A server on loopback that a test writes the answers of: one thread, gone with its block."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.ports import LOOPBACK


@contextmanager
def served(server: ThreadingHTTPServer) -> Iterator[None]:
    """Answer requests until the end of the block."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    """A server for bursts: Python's own queue of five connections resets the others."""

    request_queue_size = 128


def unserved() -> ThreadingHTTPServer:
    """A server with an address and no answers yet: those may have to know it."""
    return _Server((LOOPBACK, 0), BaseHTTPRequestHandler)
