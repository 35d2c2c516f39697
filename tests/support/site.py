"""The console as an operator runs it: a process, people who log in, and something for them to look at."""

import http.client
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from tests.support.apart import run_apart
from tests.support.children import Child, spawn
from tests.support.command import COMMAND, environment
from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from tests.support.logins import as_role
from tests.support.ports import LOOPBACK, free_ports
from tests.support.shop import wait_until
from verbworker.runbook.event import Kind, Wait
from verbworker.stores.cases.gates import HumanGate
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.work.gates.decide import Gates

TENANT = "default"
KEYS = {"ann": "a-key-that-ann-alone-has", "bob": "a-key-that-bob-alone-has", "eve": "a-key-of-another-tenant"}
_TOKEN = re.compile(r'name="csrf" value="([^"]+)"')
_SENTENCE = re.compile(r'<p id="sentence"[^>]*>(.*?)</p>', re.DOTALL)


def credentials(**names: str) -> str:
    """Who may log in: ann and bob, eve for another tenant, and whoever else is named with a key."""
    keys = {**KEYS, **names}
    rows = [
        {
            "name": name,
            "tenant": "globex" if name == "eve" else TENANT,
            "sha256": sha256(key.encode()).hexdigest(),
        }
        for name, key in keys.items()
    ]
    return json.dumps({"api_keys": rows})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the console said."""

    status: int
    text: str
    headers: Mapping[str, str]
    cookies: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The one sentence of a refusal."""
        found = _SENTENCE.findall(self.text)
        assert len(found) == 1, self.text
        assert "Traceback" not in self.text
        return unescape(found[0])

    @property
    def csrf(self) -> str:
        """The token that the forms of this page have."""
        found = _TOKEN.search(self.text)
        assert found is not None, self.text
        return found[1]


class Site:
    """A running console."""

    def __init__(self, child: Child, port: int, log: Path) -> None:
        self._child = child
        self.port = port
        self.log = log
        self._logins: dict[str, dict[str, str]] = {}

    @property
    def pid(self) -> int:
        """Its process."""
        return self._child.pid

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{LOOPBACK}:{self.port}"

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request as anybody could send it."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=30)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            cookies = tuple(value for name, value in response.getheaders() if name.lower() == "set-cookie")
            return Answer(response.status, response.read().decode(), told, cookies)
        finally:
            connection.close()

    def visitor(self, who: str | None = None) -> "Visitor":
        """Somebody with a browser of their own; who has a name is logged in, once: guessing is slow here."""
        visitor = Visitor(self)
        if who is not None and who not in self._logins:
            answer = visitor.send("/login", {"key": KEYS[who], "next": "/"})
            assert answer.status == 303, answer.text
            self._logins[who] = dict(visitor.cookies)
        visitor.cookies = dict(self._logins.get(who or "", {}))
        return visitor

    def is_ready(self) -> bool:
        """Whether it answers and has its database."""
        assert self._child.code() is None, self.log.read_text()
        try:
            return self.ask("GET", "/ready").status == 200
        except OSError:
            return False

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and return the exit code."""
        os.kill(self._child.pid, number)
        return self._child.wait(30)


@dataclass(slots=True)
class Visitor:
    """A browser without a screen: it keeps cookies and sends forms."""

    site: Site
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Answer:
        """A page."""
        return self._keep(self.site.ask("GET", path, None, {**self._headers(), **headers}))

    def send(self, path: str, form: Mapping[str, str], **headers: str) -> Answer:
        """A form as it is, from one of the console's own pages unless the headers say otherwise."""
        own = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.site.url, **self._headers()}
        return self._keep(self.site.ask("POST", path, urlencode(form).encode(), {**own, **headers}))

    def fill(self, page: str, path: str, form: Mapping[str, str]) -> Answer:
        """Load a page and send one of its forms."""
        return self.send(path, {**form, "csrf": self.get(page).csrf})

    def _headers(self) -> dict[str, str]:
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}

    def _keep(self, answer: Answer) -> Answer:
        for cookie in answer.cookies:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer


@contextmanager
def site(folder: Path, dsn: str, *options: str, directory: Path | None = None, **settings: str) -> Iterator[Site]:
    """A running console, ended in any case."""
    (port,) = free_ports(1)
    log = folder / f"console-{port}.log"
    given = {
        "VERBWORKER_ENGINE": "embedded",
        "VERBWORKER_ENGINE_ID": ENGINE,
        "VERBWORKER_CONSOLE_PORT": str(port),
        "VERBWORKER_CONSOLE_CREDENTIALS": credentials(),
    }
    child = spawn(
        [COMMAND, "console", *options],
        log=log,
        environment=environment(as_role(dsn, "console"), **{**given, **settings}),
        directory=directory or folder,
    )
    opened = Site(child, port, log)
    try:
        wait_until(opened.is_ready, "the console never became ready")
        yield opened
    finally:
        child.end(signal.SIGKILL)


async def _parked(dsn: str, token: Mapping[str, Any], request: Mapping[str, Any], element: int) -> HumanGate:
    given = {"gate": "review", "reason": "Awaiting reviewer", "job_key": element}
    async with Database(dsn, size=2) as database:
        stored = await StoredEntry.open(database, **request)
        await stored.start(element)
        wait = stored.token(element, Wait.HUMAN_GATE, **{**given, "instance_key": element, **token})
        await stored.park(wait)
        await stored.runbook.append(
            stored.entry_id, Kind.PARKED, once=f"parked:{element}", detail={"wait": "human_gate", "reason": wait.reason}
        )
        (gate,) = await Gates(database).list(TENANT, entry_id=stored.entry_id)
        return gate


def parked(dsn: str, *, element: int = 1, token: Mapping[str, Any] | None = None, **request: Any) -> HumanGate:
    """A gate at which an entry waits, without an engine behind it."""
    detail = {"decisions": ["approve", "reject"], "audience": "reviewer"}
    return run_apart(_parked(dsn, {"detail": detail, **(token or {})}, request, element))


def ended(dsn: str, entry_id: UUID) -> None:
    """End an entry well, as its process does."""

    async def end() -> None:
        async with Database(dsn, size=2) as database, database.transaction() as connection:
            await Runbook(database).end_in(connection, entry_id, outcome=b"{}", detail={"result": "ok"})

    run_apart(end())
