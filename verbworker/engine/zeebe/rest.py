"""The calls that Zeebe offers only over REST: each with a header and a deadline, errors translated."""

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import orjson

from verbworker.engine.zeebe.auth import Access, Header
from verbworker.engine.zeebe.connection import GatewayAddress, Tls
from verbworker.errors import AccessDenied, Backpressure, CommandInvalid, EngineError, EngineUnavailable
from verbworker.http.http_client import HttpClient, Reply

_LARGEST_ANSWER: Final = 1024 * 1024  # bytes; far more than the answers we ask for
_LONGEST_REASON: Final = 2_000  # characters; it goes into logs and sentences
_PREFIX: Final = "/v2"


class Rest:
    """REST v2 of a cluster. Nothing is sent twice, except a call rejected for an expired token."""

    def __init__(self, connection: GatewayAddress, access: Access) -> None:
        tls = connection.tls or Tls()
        self._http = HttpClient(
            connection.call_timeout_s,
            _LARGEST_ANSWER,
            ca=tls.ca,
            certificate=tls.certificate,
            key=tls.key,
            uses_proxy=False,  # a gateway is inside the network, or has an address of its own
        )
        self._url = connection.rest_url
        self._access = access

    async def correlate(self, name: str, correlation_key: str, variables: object, tenant_id: str) -> int | None:
        """Deliver a message to a current subscriber; return its instance key, or None without one."""
        body = {"name": name, "correlationKey": correlation_key, "variables": variables}
        if tenant_id:
            body["tenantId"] = tenant_id
        reply = await self._post("/messages/correlation", body)
        status, answer = reply.status, reply.json()
        if status == 404 and isinstance(answer, dict) and answer.get("title") == "NOT_FOUND":
            return None  # any other 404 is an address that does not offer this call
        if status != 200:
            raise _refusal(status, answer, "the correlation of a message")
        try:
            return int(answer["processInstanceKey"])
        except (KeyError, TypeError, ValueError) as error:
            raise EngineUnavailable("Zeebe correlated a message and did not say with which instance") from error

    async def date(self) -> datetime | None:
        """Return the gateway's clock, to the second; None without an address or a date in its answer."""
        if self._url is None:
            return None
        reply = await self._send("GET", "/topology", await self._access.header())
        try:
            return parsedate_to_datetime(reply.headers["date"])
        except (KeyError, ValueError):
            return None

    async def _post(self, path: str, body: object) -> Reply:
        try:
            content = orjson.dumps(body)
        except TypeError as error:
            raise CommandInvalid(f"variables cannot be written as JSON: {error}") from error
        header = await self._access.header()
        reply = await self._send("POST", path, header, content)
        if reply.status == 401 and self._access.reject(header):
            reply = await self._send("POST", path, await self._access.header(), content)
        return reply

    async def _send(self, method: str, path: str, header: Header | None, content: bytes | None = None) -> Reply:
        if self._url is None:
            raise CommandInvalid("this needs Zeebe's REST address: set ZEEBE_REST_ADDRESS")
        headers = {"Content-Type": "application/json"} if content is not None else {}
        try:
            return await self._http.send(
                method,
                f"{self._url}{_PREFIX}{path}",
                headers=headers | dict([header] if header else []),
                content=content,
            )
        except TimeoutError as error:
            raise EngineUnavailable("Zeebe's REST gateway did not answer in time") from error
        except (OSError, ValueError) as error:
            raise EngineUnavailable(f"Zeebe's REST gateway cannot be reached: {error}") from error


def _refusal(status: int, answer: Any, what: str) -> EngineError:
    reason = f"({status}): {_reason(answer)}"
    if status in (401, 403):
        return AccessDenied(f"Zeebe refused {what} {reason}. Give this client the permission MESSAGE:CREATE.")
    if status == 404:
        return CommandInvalid(f"Zeebe's REST address does not offer {what} {reason}: check ZEEBE_REST_ADDRESS")
    if status == 429 or (status == 503 and "RESOURCE_EXHAUSTED" in str(answer)):
        return Backpressure(f"Zeebe is too busy for {what} {reason}")
    if status in (400, 409, 413, 415):
        return CommandInvalid(f"Zeebe refused {what} {reason}")
    return EngineUnavailable(f"Zeebe did not perform {what} {reason}")


def _reason(answer: Any) -> str:
    told = answer.get("detail") or answer.get("title") if isinstance(answer, dict) else None
    return told[:_LONGEST_REASON] if isinstance(told, str) else "no reason given"
