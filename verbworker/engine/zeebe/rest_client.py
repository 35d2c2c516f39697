"""REST v2 of a cluster over kept connections: each call with a header and a deadline, errors translated."""

import asyncio
from collections.abc import AsyncIterator, Container, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from uuid import uuid4

import orjson

from verbworker.background.outages import ENGINE
from verbworker.engine.protocol import OWN_ACTION, Resource
from verbworker.engine.zeebe.auth import Access, Header
from verbworker.engine.zeebe.connection import GatewayAddress, Tls
from verbworker.engine.zeebe.rest_status import read_answer, refusal
from verbworker.errors import AnswerTooLarge, CommandInvalid, EngineUnavailable, JobNotActive, TaskTaken
from verbworker.http.http_client import HttpConnections, Reply
from verbworker.retrying import BACKPRESSURE

_PREFIX: Final = "/v2"
_JSON: Final = "application/json"
# A poll's jobs come from several partitions, each of which fills a message of the gateway's own limit.
_MESSAGES_PER_ANSWER: Final = 4
_TAKEN: Final = "already been assigned"  # in the engine's sentence, as 8.9.17 answered
_NO_ADDRESS: Final = "this needs Zeebe's REST address: set ZEEBE_REST_ADDRESS"


class RestClient:
    """REST v2 of a cluster.

    Nothing is sent twice, except what the cluster certainly did not perform: a call rejected for an expired token, and
    one rejected by backpressure, which is repeated a few times within the call's deadline.
    """

    def __init__(self, connection: GatewayAddress, access: Access) -> None:
        self._url = connection.rest_url
        self._timeout_s = connection.call_timeout_s
        self._access = access
        self._tls = connection.tls or Tls()
        self._largest_answer = connection.max_message_bytes * _MESSAGES_PER_ANSWER
        self._connections: HttpConnections | None = None

    @property
    def has_address(self) -> bool:
        """Whether a REST address is set; without one every call is refused."""
        return self._url is not None

    async def open(self) -> None:
        """Allow calls; the first one connects."""
        if self._connections is None and self._url is not None:
            tls = self._tls
            self._connections = HttpConnections(
                f"{self._url}{_PREFIX}",
                self._largest_answer,
                ca=tls.ca,
                certificate=tls.certificate,
                key=tls.key,
            )

    async def close(self) -> None:
        """Close the connections; calls in progress end with `EngineUnavailable`."""
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.close()

    async def call(
        self,
        method: str,
        path: str,
        body: object | None = None,
        *,
        what: str,
        settled: Container[int] = (),
        timeout_s: float | None = None,
    ) -> Any:
        """Send a request and return its answer's JSON; None for 204, or if the status is in `settled`.

        `what` names the command in errors. A status counts as settled only if the engine itself wrote the answer: the
        404 of a proxy on the way says nothing about the command.
        """
        content = None if body is None else _json(body)
        return await self._perform(method, path, content, _JSON, what, settled, timeout_s)

    async def upload(self, path: str, resources: list[Resource], fields: Mapping[str, str], *, what: str) -> Any:
        """Send files as a form and return the answer's JSON."""
        boundary = uuid4().hex
        content = _form(boundary, resources, fields)
        return await self._perform("POST", path, content, f"multipart/form-data; boundary={boundary}", what, (), None)

    async def pages(
        self, path: str, body: Mapping[str, Any], *, what: str, limit: int = 100
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the items of a search, page by page. Searches lag behind commands: an absent item may exist."""
        page: dict[str, Any] = {"limit": limit}
        while True:
            answer = await self.call("POST", path, {**body, "page": page}, what=what)
            items, cursor = _page(answer, what)
            for item in items:
                yield item
            # The number of all items is an estimate on some storages, so a short page is what ends a search.
            if len(items) < limit or not cursor or cursor == page.get("after"):
                return
            page = {"limit": limit, "after": cursor}

    async def date(self) -> datetime | None:
        """Return the gateway's clock, to the second; None without an address or a date in its answer."""
        if self._url is None:
            return None
        reply = await self.send("GET", "/topology")
        try:
            return parsedate_to_datetime(reply.headers["date"])
        except (KeyError, ValueError):
            return None

    async def send(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        *,
        content_type: str = _JSON,
        timeout_s: float | None = None,
    ) -> Reply:
        """Send one request and return its answer, whatever its status; `EngineUnavailable` without a whole one."""
        seconds = self._timeout_s if timeout_s is None else timeout_s
        header = await self._access.header()
        try:
            async with asyncio.timeout(seconds):
                reply = await self._send(method, path, content, content_type, header, seconds)
                if reply.status == 401 and self._access.reject(header):
                    renewed = await self._access.header()
                    reply = await self._send(method, path, content, content_type, renewed, seconds)
        except TimeoutError as error:
            raise EngineUnavailable("Zeebe's REST gateway did not answer in time") from error
        except (OSError, ValueError) as error:
            raise EngineUnavailable(f"Zeebe's REST gateway cannot be reached: {error}") from error
        if not reply.is_whole:
            raise AnswerTooLarge(
                f"the answer of Zeebe's REST gateway is larger than {self._largest_answer} bytes. Request fewer jobs"
                " per call, or raise ZEEBE_MAX_MESSAGE_SIZE."
            )
        return reply

    async def _perform(
        self,
        method: str,
        path: str,
        content: bytes | None,
        content_type: str,
        what: str,
        settled: Container[int],
        timeout_s: float | None,
    ) -> Any:
        seconds = self._timeout_s if timeout_s is None else timeout_s
        ends = asyncio.get_running_loop().time() + seconds

        async def attempt() -> Any:
            # What backpressure left of the deadline; a hundredth of a second at least, so that the answer is its own.
            left = max(ends - asyncio.get_running_loop().time(), 0.01)
            reply = await self.send(method, path, content, content_type=content_type, timeout_s=left)
            answer = _read(reply, path, what, settled)
            ENGINE.note_answer()
            return answer

        return await BACKPRESSURE.run(attempt, within=seconds / 2)

    async def _send(
        self,
        method: str,
        path: str,
        content: bytes | None,
        content_type: str,
        header: Header | None,
        seconds: float,
    ) -> Reply:
        if self._url is None:
            raise CommandInvalid(_NO_ADDRESS)
        if self._connections is None:
            raise EngineUnavailable(f"{path} was not sent: the Zeebe engine is not open")
        headers = {"Content-Type": content_type} if content is not None else {}
        return await self._connections.send(
            method, path, headers=headers | dict([header] if header else []), content=content, timeout_s=seconds
        )


class UserTaskCalls:
    """The user-task calls of REST v2. gRPC has none."""

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest

    async def complete(self, key: int) -> None:
        """Complete a task; waits for its listeners."""
        path = f"/user-tasks/{key}/completion"
        await self._rest.call("POST", path, {"action": OWN_ACTION}, what="the completion of a user task")

    async def assign(self, key: int, assignee: str, *, override: bool) -> None:
        """Assign a task; `TaskTaken` if another person has it."""
        body = {"assignee": assignee, "allowOverride": override, "action": OWN_ACTION}
        try:
            await self._rest.call("POST", f"/user-tasks/{key}/assignment", body, what="the assignment of a user task")
        except JobNotActive as error:
            if _TAKEN in str(error):
                raise TaskTaken(f"the user task {key} is assigned to another person in the engine") from error
            raise

    async def unassign(self, key: int) -> None:
        """Remove the assignee of a task."""
        await self._rest.call("DELETE", f"/user-tasks/{key}/assignee", what="the release of a user task")


def _read(reply: Reply, path: str, what: str, settled: Container[int]) -> Any:
    if reply.status == 204:
        return None
    if 200 <= reply.status < 300:
        answer = reply.json()
        if answer is None:
            raise EngineUnavailable(f"Zeebe's REST gateway did not answer {what} with JSON ({reply.status})")
        return answer
    refused = read_answer(reply.status, reply.json(), path)
    if reply.status in settled and refused.is_of_engine:
        return None
    raise refusal(refused, what)


def _page(answer: Any, what: str) -> tuple[list[dict[str, Any]], str | None]:
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise EngineUnavailable(f"Zeebe's REST gateway did not answer {what} with a page of items")
    page = answer.get("page")
    cursor = page.get("endCursor") if isinstance(page, dict) else None
    return items, cursor if isinstance(cursor, str) else None


def _json(body: object) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError as error:
        raise CommandInvalid(f"variables cannot be written as JSON: {error}") from error


def _form(boundary: str, resources: list[Resource], fields: Mapping[str, str]) -> bytes:
    """Return a multipart form: the files under `resources`, then the fields."""
    parts = bytearray()
    for resource in resources:
        name = resource.name.replace("\\", "\\\\").replace('"', "%22").replace("\r", "").replace("\n", "")
        head = f'Content-Disposition: form-data; name="resources"; filename="{name}"'
        parts += f"--{boundary}\r\n{head}\r\nContent-Type: application/octet-stream\r\n\r\n".encode()
        parts += resource.content + b"\r\n"
    for field, value in fields.items():
        parts += f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode()
    parts += f"--{boundary}--\r\n".encode()
    return bytes(parts)
