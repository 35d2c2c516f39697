"""Requests to other services: one deadline each, a limit for the answer, and TLS with the system's CAs."""

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from verbworker.http.address import require_safe

if TYPE_CHECKING:
    import httpx

# Tomcat, which Zeebe serves REST with, closes an idle connection after 20 s: ours are gone before, because a request
# sent into a closing connection is lost without a sign whether it was read.
_IDLE_S: Final = 10.0
# A worker completes, extends and polls at the same time; more than this would only queue in the gateway.
_MOST_CONNECTIONS: Final = 100
# Without compression, the limit of an answer is that of the memory used.
_PLAIN: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request; a body beyond the limit is cut off or not read, so it is no JSON any more."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool = True

    def json(self) -> Any:
        """Return the body as JSON, or None if it is not JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


@dataclass(frozen=True, slots=True)
class HttpClient:
    """Sends single requests over connections of their own. Nothing is sent twice."""

    timeout_s: float
    largest_answer: int
    ca: Path | None = None  # trusted in addition to the system's CAs
    certificate: Path | None = None
    key: Path | None = None
    uses_proxy: bool = True  # the one that the environment names

    async def get(self, url: str) -> Reply:
        """Read a public document. Redirects are followed as long as each address is safe."""
        return await self.send("GET", url, follow_redirects=True)

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        content: bytes | None = None,
        follow_redirects: bool = False,
    ) -> Reply:
        """Send one request. Raises `OSError` without an answer in time and `ValueError` for an unusable address.

        Redirects are not followed unless asked for: a secret is sent only to the configured address.
        """
        # Imported here: it takes 45 ms, and a worker without OAuth, OpenID or REST needs none.
        import httpx

        client = httpx.AsyncClient(
            verify=_context(url, self.ca, self.certificate, self.key),
            timeout=None,  # the deadline below counts for everything together, name resolution included
            trust_env=self.uses_proxy,
            follow_redirects=follow_redirects,
            event_hooks={"request": [_check_address] if follow_redirects else []},
        )
        with _translate_errors():
            httpx.URL(url).raw_host.decode().encode("idna")  # fails for a name that DNS does not allow
            request = client.stream(method, url, headers={**_PLAIN, **(headers or {})}, data=form, content=content)
            async with asyncio.timeout(self.timeout_s), client, request as answer:
                return Reply(answer.status_code, answer.headers, *await _read(answer, self.largest_answer))


class HttpConnections:
    """Connections to one base URL. Nothing is sent twice, and no redirect is followed."""

    def __init__(
        self,
        url: str,
        largest_answer: int,
        *,
        ca: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self._url = url
        self._largest_answer = largest_answer
        self._tls = (ca, certificate, key)
        self._client: httpx.AsyncClient | None = None

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        content: bytes | None,
        timeout_s: float,
    ) -> Reply:
        """Send one request. Raises `OSError` without an answer in time, `ValueError` for an unusable address."""
        with _translate_errors():
            request = self._open().stream(method, f"{self._url}{path}", headers={**_PLAIN, **headers}, content=content)
            async with asyncio.timeout(timeout_s), request as answer:
                return Reply(answer.status_code, answer.headers, *await _read(answer, self._largest_answer))

    async def close(self) -> None:
        """Close every connection; the next request opens a new one."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _open(self) -> "httpx.AsyncClient":
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(
                verify=_context(self._url, *self._tls),
                timeout=None,  # the deadline of a request counts for everything together, name resolution included
                trust_env=False,  # a gateway is inside the network, or has an address of its own
                follow_redirects=False,
                # No cookies: a gateway that sees a session refuses commands without its token against forged requests.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                limits=httpx.Limits(
                    max_connections=_MOST_CONNECTIONS,
                    max_keepalive_connections=_MOST_CONNECTIONS,
                    keepalive_expiry=_IDLE_S,
                ),
            )
        return self._client


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise errors of httpx as `ConnectionError` without an answer, and as `ValueError` for an unusable address."""
    import httpx  # here: it takes 45 ms, and a worker that speaks gRPC alone needs none

    try:
        yield
    except httpx.HTTPError as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ValueError("the address cannot be used") from error


async def _read(answer: "httpx.Response", largest: int) -> tuple[bytes, bool]:
    """Return the body up to `largest` bytes, and whether that is all of it; nothing is read of one announced larger."""
    if _announced_length(answer) > largest:
        return b"", False
    body = bytearray()
    async for part in answer.aiter_raw():
        body += part
        if len(body) > largest:
            break
    return bytes(body[:largest]), len(body) <= largest


def _announced_length(answer: "httpx.Response") -> int:
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else 0


def _context(url: str, ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    """Return the TLS settings for an address: the system's CAs and `ca`, with a client certificate if given."""
    if not url.lower().startswith("https:"):
        # Trusts no CA: reading the system's takes a while, and a plain address needs none.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.create_default_context()
    if ca is not None:
        context.load_verify_locations(cafile=ca)
    if certificate is not None and key is not None:
        context.load_cert_chain(certificate, key)
    return context


async def _check_address(request: "httpx.Request") -> None:
    require_safe(str(request.url))
