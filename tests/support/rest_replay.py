"""Recorded REST exchanges of a real 8.9.17, served byte for byte on loopback, with faults between them on request."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from tests.support.http_server import served, unserved
from tests.support.ports import LOOPBACK

RECORDING = Path(__file__).parents[1] / "conformance" / "recorded" / "rest-8.9.17.json"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One recorded request with its answer."""

    name: str
    method: str
    path: str
    request: Any
    status: int
    content_type: str | None
    response: Any
    note: str | None = None
    written: bytes = b""  # the answer as it stands in the recording, byte for byte

    @property
    def body(self) -> bytes:
        """The answer as the server wrote it: the recording is indented, and Camunda's JSON is not."""
        return b"" if self.response is None else wire_json(self.response)


def wire_json(value: object) -> bytes:
    """JSON as clients and servers send it: without blanks, in the order of the value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def recorded() -> list[Exchange]:
    """Every exchange in the order it was recorded."""
    return [_exchange(members) for members in _objects(RECORDING.read_text())]


def _exchange(members: Mapping[str, tuple[Any, str]]) -> Exchange:
    written = members["response"][1].encode() if members["response"][0] is not None else b""
    return Exchange(**{name: value for name, (value, _) in members.items()}, written=written)


def _objects(text: str) -> Iterator[dict[str, tuple[Any, str]]]:
    """The objects of a JSON array: the value of each member, and its text as it is written there."""
    scan, place = json.JSONDecoder().raw_decode, _skip(text, 1)
    while text[place] == "{":
        members: dict[str, tuple[Any, str]] = {}
        while text[place] != "}":
            name, place = scan(text, _skip(text, place + 1))
            start = _skip(text, _skip(text, place) + 1)
            value, place = scan(text, start)
            members[name] = (value, text[start:place])
            place = _skip(text, place)
        yield members
        place = _skip(text, place + 1)
        place = _skip(text, place + 1) if text[place] == "," else place


def _skip(text: str, place: int) -> int:
    while text[place].isspace():
        place += 1
    return place


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server does with one request."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0  # before the first byte
    drip_s: float = 0.0  # between single bytes of the body
    cut_after: int | None = None  # close the connection after this many bytes of the body
    is_chunked: bool = False  # in pieces, without saying how much will come
    raw: bytes | None = None  # these bytes, and no HTTP at all

    @property
    def is_slow(self) -> bool:
        """Whether only a caller's own limit ends the wait for it."""
        return bool(self.delay_s or self.drip_s)


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that reached the server."""

    method: str
    path: str
    body: bytes
    headers: Mapping[str, str]
    connection: int

    def json(self) -> Any:
        """The body as JSON; None without one."""
        return json.loads(self.body) if self.body else None


@dataclass(slots=True)
class RestServer:
    """A running server: its address, and every request it has got."""

    url: str
    seen: list[Seen] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    gone: threading.Event = field(default_factory=threading.Event)

    def paths(self) -> list[str]:
        """The requests so far, as method and path."""
        return [f"{one.method} {one.path}" for one in self.seen]


def problem(status: int, title: str, detail: str = "as recorded") -> Answer:
    """A refusal in the form of RFC 9457, as the engine writes it."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return Answer(status, json.dumps(body).encode(), "application/problem+json")


WRITINGS: dict[str, Callable[[Exchange], bytes]] = {
    "as the server writes": lambda exchange: exchange.body,
    "as the recording is written": lambda exchange: exchange.written,
}
"""The bytes of a recorded answer: parsed values were recorded, so what was on the wire is one of these."""


def replayed(exchange: Exchange, writing: str = "as the server writes") -> Answer:
    """The recorded answer."""
    return Answer(exchange.status, WRITINGS[writing](exchange), exchange.content_type)


@contextmanager
def rest_server(answer: Callable[[Seen], Answer]) -> Iterator[RestServer]:
    """Serve what `answer` decides for each request, over connections that are kept."""
    server = unserved()
    server.daemon_threads = True
    told = RestServer(f"http://{LOOPBACK}:{server.server_address[1]}")
    server.RequestHandlerClass = _handler(told, answer)
    with served(server):
        try:
            yield told
        finally:
            told.gone.set()


def _handler(told: RestServer, answer: Callable[[Seen], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            seen = Seen(self.command, self.path, body, dict(self.headers), self.client_address[1])
            with told.lock:
                told.seen.append(seen)
            said = answer(seen)
            with suppress(OSError):  # a client that gave up has closed its end
                self._say(said)

        do_GET = do_PATCH = do_DELETE = do_PUT = do_POST  # noqa: N815

        def _say(self, said: Answer) -> None:
            if told.gone.wait(said.delay_s):
                self.close_connection = True
                return
            if said.raw is not None:
                self.wfile.write(said.raw)
                self._hang_up()
                return
            self.send_response(said.status)
            if said.content_type is not None:
                self.send_header("Content-Type", said.content_type)
            if said.is_chunked:
                self.send_header("Transfer-Encoding", "chunked")
            elif said.status != 204:
                self.send_header("Content-Length", str(len(said.body)))
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.end_headers()
            _write_body(said, self.wfile, told.gone)
            if said.cut_after is not None:
                self._hang_up()

        def _hang_up(self) -> None:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    return Handler


def _write_body(said: Answer, file: BufferedIOBase, gone: threading.Event) -> None:
    if said.cut_after is not None:
        file.write(said.body[: said.cut_after])
    elif said.drip_s:
        for position in range(len(said.body)):
            file.write(said.body[position : position + 1])
            if gone.wait(said.drip_s):
                return
    elif said.is_chunked:
        for position in range(0, len(said.body), 4096):
            piece = said.body[position : position + 4096]
            file.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        file.write(b"0\r\n\r\n")
    else:
        file.write(said.body)


def now() -> float:
    """A clock for how long a call took."""
    return time.monotonic()
