"""A token server for OAuth client credentials: real HTTP on loopback, answers as it is told."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl

from tests.support.certificates import Certificate
from tests.support.http_server import served, unserved
from tests.support.ports import LOOPBACK


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server says to one request."""

    status: int = 200
    body: bytes = b""
    location: str | None = None


def token(value: str, **fields: object) -> Answer:
    """A token that lasts an hour unless the fields say otherwise."""
    return Answer(body=json.dumps({"access_token": value, "expires_in": 3600, **fields}).encode())


def refusal(status: int, error: str) -> Answer:
    """A refusal in OAuth's form."""
    return Answer(status, json.dumps({"error": error}).encode())


@dataclass(slots=True)
class TokenServer:
    """What was asked so far, and where."""

    url: str
    forms: list[dict[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def serve(answer: Callable[[int], Answer], certificate: Certificate | None = None) -> Iterator[TokenServer]:
    """Serve tokens: `answer` gets the number of the request, from 1. HTTPS when there is a certificate."""
    server = unserved()
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.chain, certificate.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    told = TokenServer(f"{scheme}://{LOOPBACK}:{server.server_address[1]}/oauth/token")
    server.RequestHandlerClass = _handler(told, answer)
    with served(server):
        yield told


def _handler(told: TokenServer, answer: Callable[[int], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            with told.lock:
                told.forms.append(dict(parse_qsl(body)))
                number = len(told.forms)
            said = answer(number)
            self.send_response(said.status)
            if said.location is not None:
                self.send_header("Location", said.location)
            self.send_header("Content-Length", str(len(said.body)))
            with suppress(ConnectionError):  # a client that gave up has closed its end
                self.end_headers()
                self.wfile.write(said.body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    return Handler
