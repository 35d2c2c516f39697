"""The ingress as an operator runs it: a process, and requests as anybody could send them."""

import http.client
import json
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.support.children import Child, spawn
from tests.support.command import COMMAND, environment
from tests.support.logins import as_role
from tests.support.mail import DOCS, KEY, TENANT, VERB
from tests.support.ports import LOOPBACK, free_ports
from tests.support.shop import wait_until

ENGINE_ID = "door-cluster"
API_KEY = "a-key-of-the-portal"
OTHER_KEY = "a-key-of-another-tenant"
WEBHOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
_MODULE = """
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb

registry = Registry().declare(
    WorkflowVerb(
        name={verb!r}, version=1, process={process!r}, schema="kyc/v1",
        correlation={{"corr_docs": "${{args.case}}"}}, messages={{{message!r}: "corr_docs"}},
    )
)
"""


def envelope(**changes: object) -> dict[str, object]:
    """A message as it is sent."""
    fields: dict[str, object] = {
        "message_name": DOCS,
        "message_id": "m-1",
        "correlation_key": KEY,
        "tenant_id": TENANT,
        "payload": {"pages": 3},
    }
    return {**fields, **changes}


def write_app(folder: Path, *, message: str = DOCS, process: str = "kyc") -> None:
    """An application with one workflow verb, and the credentials of its senders."""
    (folder / "mailing.py").write_text(_MODULE.format(verb=VERB, process=process, message=message))
    keys = [("portal", TENANT, API_KEY), ("other", "globex", OTHER_KEY)]
    credentials = {
        "api_keys": [{"name": n, "tenant": t, "sha256": sha256(k.encode()).hexdigest()} for n, t, k in keys],
        "webhooks": [{"name": "scanner", "tenant": TENANT, "secrets": [WEBHOOK_SECRET]}],
    }
    (folder / "credentials.json").write_text(json.dumps(credentials))


@dataclass(frozen=True, slots=True)
class Answer:
    """What the ingress said."""

    status: int
    body: Any
    headers: Mapping[str, str]


class IngressProcess:
    """A running ingress."""

    def __init__(self, child: Child, port: int, log: Path) -> None:
        self._child = child
        self.port = port
        self.log = log

    def post(
        self,
        body: object,
        path: str = "/messages",
        *,
        key: str | None = API_KEY,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
        chunks: Iterable[bytes] | None = None,
    ) -> Answer:
        """Send something: an object as JSON, bytes as they are, or chunks without saying how long they are."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": kind, **({"X-Api-Key": key} if key else {}), **(headers or {})}
        return self.ask("POST", path, content if chunks is None else chunks, sent)

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=30)
        try:
            chunked = body is not None and not isinstance(body, bytes)
            connection.request(method, path, body, dict(headers or {}), encode_chunked=chunked)
            response = connection.getresponse()
            text = response.read()
            told = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, json.loads(text) if text else None, told)
        finally:
            connection.close()

    def is_ready(self) -> bool:
        """Whether it answers and has its database."""
        assert self._child.code() is None, self.log.read_text()
        try:
            return self.ask("GET", "/ready").status == 200
        except OSError:
            return False

    def listens(self) -> bool:
        """Whether a new connection is taken."""
        try:
            self.ask("GET", "/live")
        except OSError:
            return False
        return True

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self._child.pid, number)

    def exit_code(self) -> int:
        """Wait until it has ended by itself."""
        return self._child.wait(30)

    def slow_post(self, body: bytes) -> "SlowPost":
        """Begin to send a message; its second half is sent when the test says so."""
        return SlowPost(self.port, body)


class SlowPost:
    """A request that is half sent."""

    def __init__(self, port: int, body: bytes) -> None:
        self._rest = body[len(body) // 2 :]
        self._connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
        self._connection.putrequest("POST", "/messages")
        for name, value in (("Content-Type", "application/json"), ("X-Api-Key", API_KEY)):
            self._connection.putheader(name, value)
        self._connection.putheader("Content-Length", str(len(body)))
        self._connection.endheaders(body[: len(body) // 2])

    def finish(self) -> int:
        """Send the rest and return the status of the answer."""
        try:
            self._connection.send(self._rest)
            return self._connection.getresponse().status
        finally:
            self._connection.close()


@contextmanager
def ingress_process(folder: Path, dsn: str, *options: str, **settings: str) -> Iterator[IngressProcess]:
    """A running ingress of the application in a folder, ended in any case."""
    (port,) = free_ports(1)
    log = folder / f"ingress-{port}.log"
    given = {
        "VERBWORKER_ENGINE_ID": ENGINE_ID,
        "VERBWORKER_INGRESS_PORT": str(port),
        "VERBWORKER_INGRESS_CREDENTIALS_FILE": str(folder / "credentials.json"),
        "ZEEBE_ADDRESS": f"{LOOPBACK}:9",
    }
    child = spawn(
        [COMMAND, "ingress", "--app", "mailing:registry", *options],
        log=log,
        environment=environment(as_role(dsn, "ingress"), **{**given, **settings}),
        directory=folder,
    )
    opened = IngressProcess(child, port, log)
    try:
        wait_until(opened.is_ready, "the ingress never became ready")
        yield opened
    finally:
        child.end(signal.SIGKILL)
