"""A sanctions screening provider on loopback: it knows a repeated question by its key, and refuses when told to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.support.http_server import served, unserved
from tests.support.ports import LOOPBACK


@dataclass(slots=True)
class Provider:
    """What was asked so far, and how the next questions are answered."""

    url: str
    listed: set[str] = field(default_factory=set)
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    """What the next questions get instead of a screening, one after the other."""
    refusing: int | None = None
    questions: list[tuple[str, str]] = field(default_factory=list)
    screenings: dict[str, dict[str, object]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, key: str, entity: str) -> tuple[int, bytes]:
        """One screening per key, whatever else happens on the way."""
        with self.lock:
            self.questions.append((key, entity))
            if self.answers:
                return self.answers.pop(0)
            if self.refusing is not None:
                return self.refusing, b"{}"
            found = {"reference": f"S-{len(self.screenings) + 1}", "lists": 7, "hit": entity in self.listed}
            return 200, json.dumps(self.screenings.setdefault(key, found)).encode()

    def keys_for(self, entity: str) -> set[str]:
        """The keys under which an entity was asked for."""
        with self.lock:
            return {key for key, asked in self.questions if asked == entity}


@contextmanager
def serve() -> Iterator[Provider]:
    """A provider until the end of the block."""
    server = unserved()
    provider = Provider(f"http://{LOOPBACK}:{server.server_address[1]}/screenings")
    server.RequestHandlerClass = _handler(provider)
    with served(server):
        yield provider


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = provider.answer(self.headers["Idempotency-Key"], question["entity"])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    return Handler
