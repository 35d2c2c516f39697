"""A slow and lossy network, as a process of its own: `python -m tests.faults.proxy CONTROL_PORT LINKS`.

LINKS is JSON: {"postgres/0": [port to listen on, "host:port" to lead to], ...}. The control port takes one JSON line
per connection, {"links": [...], "mode": "...", "seconds": 2.0, ...}, and answers when the trouble is over.

Links called `internal/1` and `command/1` lead to broker 1. {"mode": "isolate", "node": 1, "pids": {"0": 4711, ...}}
holds back everything between that broker and the others; the kernel tells which broker a connection comes from.
"""

import asyncio
import functools
import json
import random
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.web import LOOPBACK

_CHUNK = 65536


class Isolation:
    """The brokers that the others cannot reach, nor they the others."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self._over = asyncio.Event()

    async def passes(self, *nodes: str) -> None:
        """Return once none of the nodes is isolated."""
        while self.nodes & set(nodes):
            await self._over.wait()

    async def hold(self, node: str, seconds: float) -> None:
        """Isolate a broker for so long."""
        self._over.clear()
        self.nodes.add(node)
        await asyncio.sleep(seconds)
        self.nodes.discard(node)
        self._over.set()


ISOLATION = Isolation()
PORTS: dict[int, str] = {}
"""Which broker sends datagrams from which port."""


@dataclass(eq=False, slots=True)
class Link:
    """One way through the network, and what is wrong with it just now."""

    target: str
    node: str = ""
    delay: float = 0.0
    cut_chance: float = 0.0
    loses_answers: bool = False
    passes: asyncio.Event = field(default_factory=asyncio.Event)
    connections: set["Connection"] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either side or the trouble ends it."""
        await self.passes.wait()
        host, _, port = self.target.rpartition(":")
        try:
            server_reader, server_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            _reset(writer)
            return
        connection = Connection(self, (writer, server_writer))
        if self.node and ISOLATION.nodes:
            connection.find_source(_ports_of_brokers())
        self.connections.add(connection)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(connection.pump(reader, server_writer, is_answer=False))
                pumps.create_task(connection.pump(server_reader, writer, is_answer=True))
        finally:
            self.connections.discard(connection)
            connection.reset()

    def heal(self, mode: object) -> None:
        """End one kind of trouble; another may go on."""
        match mode:
            case "delay":
                self.delay = 0.0
            case "lossy":
                self.delay, self.cut_chance = 0.0, 0.0
            case "hole":
                self.passes.set()
            case "lose answers":
                self.loses_answers = False

    def cut(self) -> None:
        """Break every connection, as a peer does that is gone."""
        for connection in list(self.connections):
            connection.reset()


class Connection:
    """Two sockets and the bytes between them."""

    def __init__(self, link: Link, ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        self._link = link
        self._ends = ends
        self._nodes: tuple[str, ...] = (link.node,)
        self.lost_answers = False

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        """Carry the bytes of one direction."""
        try:
            while said := await reader.read(_CHUNK):
                if self._link.delay:
                    await asyncio.sleep(random.uniform(0.5, 1.5) * self._link.delay)
                if self._link.cut_chance and random.random() < self._link.cut_chance:
                    break
                await self._link.passes.wait()
                await ISOLATION.passes(*self._nodes)
                if is_answer and (self._link.loses_answers or self.lost_answers):
                    self.lost_answers = True  # whatever follows would be read as the answer to something else
                    continue
                writer.write(said)
                await writer.drain()
        except OSError:
            pass
        self.reset()

    def find_source(self, ports: Mapping[int, str]) -> None:
        """Learn which broker is at the other end."""
        peer = self._ends[0].get_extra_info("peername")
        if peer is not None and peer[1] in ports:
            self._nodes = (self._link.node, ports[peer[1]])

    def reset(self) -> None:
        """Break both ends."""
        for end in self._ends:
            _reset(end)


class Datagrams(asyncio.DatagramProtocol):
    """Passes on the datagrams that brokers gossip by; those of an isolated one are lost."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to send."""
        assert isinstance(transport, asyncio.DatagramTransport)
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Pass one on."""
        if self._transport is not None and not ISOLATION.nodes & {self._link.node, PORTS.get(addr[1], "")}:
            host, _, port = self._link.target.rpartition(":")
            self._transport.sendto(data, (host, int(port)))


PIDS: dict[str, int] = {}


def _ports_of_brokers() -> dict[int, str]:
    """Which broker has which local port, as the kernel tells."""
    import psutil  # only the network of a cluster needs it

    ports = {}
    for node, pid in PIDS.items():
        try:
            ports.update({one.laddr.port: node for one in psutil.Process(pid).net_connections("tcp") if one.laddr})
        except psutil.Error:
            continue
    return ports


def _reset(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None and not writer.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def trouble(links: Sequence[Link], wanted: dict[str, object]) -> None:
    """Make one kind of trouble for so many seconds, then end it."""
    seconds = float(str(wanted.get("seconds", 0)))
    if wanted["mode"] == "isolate":
        ports = _ports_of_brokers()
        for link in links:
            for connection in link.connections:
                connection.find_source(ports)
        await ISOLATION.hold(str(wanted["node"]), seconds)
        return
    for link in links:
        match wanted["mode"]:
            case "cut":
                link.cut()
            case "delay":
                link.delay = float(str(wanted["delay"]))
            case "lossy":
                link.delay, link.cut_chance = 0.02, 0.02
            case "hole":
                link.passes.clear()
            case "lose answers":
                link.loses_answers = True
            case unknown:
                raise ValueError(f"no such trouble: {unknown}")
    await asyncio.sleep(seconds)
    for link in links:
        link.heal(wanted["mode"])
        for connection in list(link.connections):
            if connection.lost_answers or wanted.get("then") == "cut":
                connection.reset()


async def _main() -> None:
    described = json.loads(sys.argv[2])
    links = {}
    for name, (port, target) in described.items():
        side, _, who = name.partition("/")
        link = links[name] = Link(target, node=who if side in ("internal", "command") else "")
        link.passes.set()
        await asyncio.start_server(link.serve, LOOPBACK, port)
        if side == "internal":
            PORTS[int(target.rpartition(":")[2])] = who
            loop = asyncio.get_running_loop()
            await loop.create_datagram_endpoint(functools.partial(Datagrams, link), local_addr=(LOOPBACK, port))

    async def control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wanted = json.loads(await reader.readline())
        PIDS.update(wanted.get("pids", {}))
        await trouble([links[name] for name in wanted["links"]], wanted)
        writer.write(b"{}\n")
        writer.close()

    server = await asyncio.start_server(control, LOOPBACK, int(sys.argv[1]))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
