"""The calls that Zeebe offers only over REST: each with a header and a deadline, errors translated."""

import asyncio
import http.client
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from verbworker.engine.zeebe.auth import Access, Header
from verbworker.engine.zeebe.connection import GatewayAddress, Tls
from verbworker.errors import AccessDenied, Backpressure, CommandInvalid, EngineError, EngineUnavailable

_LARGEST_ANSWER: Final = 1024 * 1024
_LONGEST_REASON: Final = 2_000
_PREFIX: Final = "/v2"


class Rest:
    """REST v2 of a cluster. Nothing is sent twice, except a call rejected for an expired token."""

    def __init__(self, connection: GatewayAddress, access: Access) -> None:
        self._connection = connection
        self._access = access

    async def correlate(self, name: str, correlation_key: str, variables: object, tenant_id: str) -> int | None:
        """Deliver a message to a current subscriber; return its instance key, or None without one."""
        body = {"name": name, "correlationKey": correlation_key, "variables": variables}
        if tenant_id:
            body["tenantId"] = tenant_id
        status, answer = await self._post("/messages/correlation", body)
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
        url, timeout = self._connection.rest_url, self._connection.call_timeout_s
        if url is None:
            return None
        header = await self._access.header()
        with _in_our_words():
            async with asyncio.timeout(timeout + 2):
                return await asyncio.to_thread(_fetch_date, url, header, self._connection.tls, timeout)

    async def _post(self, path: str, body: object) -> tuple[int, Any]:
        try:
            content = orjson.dumps(body)
        except TypeError as error:
            raise CommandInvalid(f"variables cannot be written as JSON: {error}") from error
        header = await self._access.header()
        status, answer = await self._send(path, content, header)
        if status == 401 and self._access.reject(header):
            status, answer = await self._send(path, content, await self._access.header())
        return status, answer

    async def _send(self, path: str, content: bytes, header: Header | None) -> tuple[int, Any]:
        url, timeout = self._connection.rest_url, self._connection.call_timeout_s
        if url is None:
            raise CommandInvalid("this needs Zeebe's REST address: set ZEEBE_REST_ADDRESS")
        with _in_our_words():
            # The outer timeout is for what a socket's own cannot stop, such as a hanging name server.
            async with asyncio.timeout(timeout + 2):
                return await asyncio.to_thread(
                    _exchange, url, _PREFIX + path, content, header, self._connection.tls, timeout
                )


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise EngineUnavailable("Zeebe's REST gateway did not answer in time") from error
    except (OSError, http.client.HTTPException) as error:
        raise EngineUnavailable(f"Zeebe's REST gateway cannot be reached: {error or type(error).__name__}") from error


def _exchange(
    url: str, path: str, content: bytes, header: Header | None, tls: Tls | None, timeout: float
) -> tuple[int, Any]:
    """Send one request; blocks, so call it in a thread."""
    headers = {"Content-Type": "application/json", "Accept": "application/json", **_headers(header)}
    with closing(_connect(url, tls, timeout)) as connection:
        connection.request("POST", _path(url, path), content, headers)
        response = connection.getresponse()
        answer = response.read(_LARGEST_ANSWER)
    try:
        return response.status, orjson.loads(answer)
    except orjson.JSONDecodeError:
        return response.status, None


def _fetch_date(url: str, header: Header | None, tls: Tls | None, timeout: float) -> datetime | None:
    """Return the date of an answer with any status; blocks, so call it in a thread."""
    with closing(_connect(url, tls, timeout)) as connection:
        connection.request("GET", _path(url, f"{_PREFIX}/topology"), headers=_headers(header))
        told = connection.getresponse().headers["Date"]
    try:
        return None if told is None else parsedate_to_datetime(told)
    except ValueError:
        return None


def _connect(url: str, tls: Tls | None, timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=_context(tls or Tls()))
    return http.client.HTTPConnection(host, port, timeout=timeout)


def _path(url: str, path: str) -> str:
    return urlsplit(url).path.rstrip("/") + path


def _headers(header: Header | None) -> dict[str, str]:
    return {} if header is None else {header[0]: header[1]}


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if tls.ca is not None:
        context.load_verify_locations(cafile=tls.ca)
    if tls.certificate is not None and tls.key is not None:
        context.load_cert_chain(tls.certificate, tls.key)
    return context


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
