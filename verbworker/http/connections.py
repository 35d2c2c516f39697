"""The connections of a server: how many there may be, how many of one peer, and which makes room for a new one."""

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from email.utils import formatdate
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

Network = IPv4Network | IPv6Network

# A client of a burst may have connected a moment ago, and its request is on its way.
_ON_ITS_WAY_S: Final = 1.0
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\nConnection: close\r\n"
    b'Content-Length: 56\r\n\r\n{"error":"too many connections are open; retry later"}\r\n'
)


class Connections:
    """Counts connections by peer, and knows which wait for a request, the longest first."""

    def __init__(self, most: int, per_peer: int, proxies: Sequence[Network]) -> None:
        self._most = most
        self._per_peer = per_peer
        self._proxies = proxies
        self._peers: dict[str, int] = defaultdict(int)
        self._total = 0
        # By peer, in the order in which they began to wait, with the time.
        self._idle: dict[str, OrderedDict[asyncio.Transport, float]] = defaultdict(OrderedDict)

    def admit(self, peer: str) -> bool:
        """Count a connection in; return False if it is one too many. Another that is idle may be closed for it."""
        self._total += 1
        self._peers[peer] += 1
        if self._peers[peer] > self._per_peer and not self._is_proxy(peer):
            return self._make_room(peer)
        if self._total > self._most:
            return self._make_room(max(self._idle, key=lambda one: len(self._idle[one]), default=""))
        return True

    def remove(self, peer: str, transport: asyncio.Transport) -> None:
        """Count a connection out."""
        self.note_busy(peer, transport)
        self._total -= 1
        self._peers[peer] -= 1
        if not self._peers[peer]:
            del self._peers[peer]

    def note_idle(self, peer: str, transport: asyncio.Transport) -> None:
        """A connection waits for its next request."""
        self._idle[peer][transport] = time.monotonic()

    def note_busy(self, peer: str, transport: asyncio.Transport) -> None:
        """A connection has a request, or is about to be closed."""
        waiting = self._idle.get(peer)
        if waiting is not None:
            waiting.pop(transport, None)
            if not waiting:
                del self._idle[peer]

    def _make_room(self, peer: str) -> bool:
        """Close the connection of a peer that is idle longest; return False if none is idle for long enough."""
        longest, since = next(iter(self._idle.get(peer, {}).items()), (None, 0.0))
        if longest is None or time.monotonic() - since < _ON_ITS_WAY_S:
            return False
        self.note_busy(peer, longest)
        longest.abort()  # and not `close`: a client that reads nothing would hold it
        return True

    def _is_proxy(self, peer: str) -> bool:
        return _is_in(peer, self._proxies)


def client_address(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """Return who sent a request: the peer, or the last address that a declared proxy did not add itself.

    What stands before that address in the headers was sent by the client, who may write anything.
    """
    path = [one.strip() for line in forwarded for one in line.split(",")]
    while path and _is_in(peer, proxies):
        peer = path.pop()
    return peer


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    try:
        known = ip_address(address)
    except ValueError:
        return False
    return any(known in network for network in networks)


def make_protocol(connections: Connections, longest_idle_s: float) -> type[H11Protocol]:
    """Return the protocol of one server, whose connections are counted."""

    class BoundedProtocol(H11Protocol):
        """Closes a connection on which no request arrives: a few of them could otherwise use up the limit."""

        _deadline: asyncio.TimerHandle | None = None
        _peer = ""
        _is_counted = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
            """Expect a request, if there is room."""
            super().connection_made(transport)
            self._peer = self.client[0] if self.client else ""
            self._is_counted = True
            if not connections.admit(self._peer):
                transport.write(_FULL)
                transport.close()
                return
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            """Count it out."""
            self._forget_deadline()
            if self._is_counted:
                self._is_counted = False
                connections.remove(self._peer, self.transport)
            super().connection_lost(exc)

        def handle_events(self) -> None:
            """Handle what has arrived; called after each answer as well."""
            self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            super().handle_events()
            self._expect_head()

        def _expect_head(self) -> None:
            if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
                connections.note_busy(self._peer, self.transport)
                self._forget_deadline()
            elif self._deadline is None:
                connections.note_idle(self._peer, self.transport)
                self._deadline = self.loop.call_later(longest_idle_s, self.transport.close)

        def _forget_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
            self._deadline = None

    return BoundedProtocol
