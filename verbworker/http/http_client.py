"""Requests to other services: one deadline each, a limit for the answer, and TLS with the system's CAs."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from verbworker.http.address import require_safe

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request; a body beyond the limit is cut off, so it is no JSON any more."""

    status: int
    headers: Mapping[str, str]
    body: bytes

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
            verify=self._context(url),
            timeout=None,  # the deadline below counts for everything together, name resolution included
            trust_env=self.uses_proxy,
            follow_redirects=follow_redirects,
            event_hooks={"request": [_check_address] if follow_redirects else []},
        )
        # Without compression, the limit is that of the memory used.
        plain = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
        try:
            httpx.URL(url).raw_host.decode().encode("idna")  # fails for a name that DNS does not allow
            request = client.stream(method, url, headers=plain, data=form, content=content)
            async with asyncio.timeout(self.timeout_s), client, request as answer:
                return Reply(answer.status_code, answer.headers, await self._read(answer))
        except httpx.HTTPError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ValueError("the address cannot be used") from error

    async def _read(self, answer: "httpx.Response") -> bytes:
        body = bytearray()
        async for part in answer.aiter_raw():
            body += part
            if len(body) > self.largest_answer:
                break
        return bytes(body[: self.largest_answer])

    def _context(self, url: str) -> ssl.SSLContext:
        if not url.lower().startswith("https:"):
            # Trusts no CA: reading the system's takes a while, and a plain address needs none.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context = ssl.create_default_context()
        if self.ca is not None:
            context.load_verify_locations(cafile=self.ca)
        if self.certificate is not None and self.key is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


async def _check_address(request: "httpx.Request") -> None:
    require_safe(str(request.url))
