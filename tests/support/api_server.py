"""The HTTP API as a real server on a port, and callers with credentials of two tenants."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import httpx

from tests.support.embedded_service import TENANT, Steps
from tests.support.logins import as_role
from tests.support.ports import LOOPBACK, free_ports
from verbworker.api.server import serve
from verbworker.api.settings import IngressSettings
from verbworker.app.settings import Settings
from verbworker.app.wiring import choose_engine

ALL = ["messages", "read", "start", "decide", "cancel", "resolve"]
KEY, OTHER_KEY, READ_KEY, MESSAGE_KEY = "key-of-ann", "key-of-eve", "key-of-the-board", "key-of-the-portal"
_HOLDERS = [
    ("ann", TENANT, KEY, {"scopes": ALL}),
    ("eve", "others", OTHER_KEY, {"scopes": ALL}),
    ("board", TENANT, READ_KEY, {"scopes": ["read"]}),
    ("portal", TENANT, MESSAGE_KEY, {}),
]
_TIMEOUT = 20.0


class ApiServer:
    """A server that a test can stop and start again on the same port."""

    def __init__(self, dsn: str, **settings: Any) -> None:
        self._settings = Settings.model_validate(
            {"dsn": as_role(dsn, "ingress"), "engine": "embedded", "tenant": TENANT}
        )
        self._more = settings
        self.port = free_ports(1)[0]
        self.url = f"http://{LOOPBACK}:{self.port}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve until the end of the block, and end as the command does."""
        credentials = {
            "api_keys": [
                {"name": name, "tenant": tenant, "sha256": sha256(key.encode()).hexdigest(), **scopes}
                for name, tenant, key, scopes in _HOLDERS
            ]
        }
        given = {"host": LOOPBACK, "port": self.port, "credentials": json.dumps(credentials), "drain": 5}
        ingress = IngressSettings.model_validate({**given, **self._more})
        stop, engine = asyncio.Event(), choose_engine(self._settings, is_working=False)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(self._settings, ingress, Steps().registry(), engine, stop))
            await self._until_ready()
            yield
            stop.set()

    def caller(self, key: str | None = KEY) -> httpx.AsyncClient:
        """Somebody with a key, or without one."""
        headers = {} if key is None else {"X-Api-Key": key}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30)

    async def _until_ready(self) -> None:
        async with asyncio.timeout(_TIMEOUT), self.caller(None) as caller:
            while True:
                try:
                    if (await caller.get("/ready")).status_code == 200:
                        return
                except httpx.TransportError:
                    await asyncio.sleep(0.05)


async def read_stream(answer: httpx.Response, most: int) -> list[dict[str, Any]]:
    """The first events of a stream, or all if it ends before."""
    events: list[dict[str, Any]] = []
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            events.append(json.loads(line.removeprefix("data: ")))
            if len(events) == most:
                break
    return events
