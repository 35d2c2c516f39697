"""The console as a server in this process, and browsers that keep their cookies."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from tests.support.logins import as_role
from tests.support.ports import LOOPBACK, free_ports
from tests.support.site import KEYS, TENANT
from verbworker.app.settings import Settings
from verbworker.console.server import serve
from verbworker.console.settings import ConsoleSettings

SECRET = "a secret of the tests that is long enough"
_TOKEN = re.compile(r'name="csrf" value="([^"]+)"')
_TIMEOUT = 20.0


def key_file(path: Path, names: Iterable[str], **roles: list[str]) -> None:
    """Write the file of credentials, with the keys of these people only, and the roles of those that have any."""
    rows = [
        {"name": name, "tenant": TENANT, "sha256": sha256(KEYS[name].encode()).hexdigest()}
        | ({"roles": roles[name]} if name in roles else {})
        for name in names
    ]
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"api_keys": rows}))
    fresh.replace(path)


class ConsoleServer:
    """A console that a test can stop and start again on the same port, with the same secret."""

    def __init__(self, dsn: str, credentials_file: Path, **settings: Any) -> None:
        self._settings = Settings.model_validate(
            {"dsn": as_role(dsn, "console"), "engine": "embedded", "tenant": TENANT}
        )
        self.port = free_ports(1)[0]
        self.url = f"http://{LOOPBACK}:{self.port}"
        self._given = {"host": LOOPBACK, "port": self.port, "credentials_file": credentials_file, "secret": SECRET}
        self._more = settings

    @asynccontextmanager
    async def serving(self, **settings: Any) -> AsyncIterator[None]:
        """Serve until the end of the block, and end as the command does."""
        console = ConsoleSettings.model_validate({"drain": 5, **self._given, **self._more, **settings})
        stop, opened = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            task = serve(self._settings, console, lambda: None, stop, opened=lambda _: opened.set())
            tasks.create_task(task)
            try:
                async with asyncio.timeout(_TIMEOUT):
                    await opened.wait()
                    await self._until_ready()
                yield
            finally:
                stop.set()

    def browser(self) -> httpx.AsyncClient:
        """Return a browser; it keeps its cookies and follows no redirect."""
        return httpx.AsyncClient(base_url=self.url, timeout=30)

    async def log_in(self, browser: httpx.AsyncClient, name: str = "ann") -> None:
        """Log somebody in by their key."""
        answer = await browser.post("/login", data={"key": KEYS[name], "next": "/"})
        assert answer.status_code == 303, answer.text

    async def log_out(self, browser: httpx.AsyncClient) -> httpx.Response:
        """Log out as the page's form does."""
        return await browser.post("/logout", data={"csrf": await self.token(browser)})

    async def token(self, browser: httpx.AsyncClient) -> str:
        """Return the token of the forms on a page of somebody who is logged in."""
        found = _TOKEN.search((await browser.get("/")).text)
        assert found is not None
        return found[1]

    async def _until_ready(self) -> None:
        async with self.browser() as browser:
            while True:
                try:
                    if (await browser.get("/ready")).status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.05)
