"""Security headers, the host names that are ours, and the origins that forms may come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from verbworker.http.address import is_loopback

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses under which people reach the console."""

    origins: frozenset[str]
    home: str

    @classmethod
    def of(cls, host: str, port: int, public_url: str | None, *, tls: bool = False) -> "Addresses":
        """Collect the loopback names if it listens on loopback, and the address that people type."""
        scheme = "https" if tls else "http"
        own = [f"{scheme}://{name}:{port}" for name in _NAMES] if is_loopback(host) else []
        shown = f"[{host}]" if ":" in host else host
        home = public_url.rstrip("/") if public_url else f"{scheme}://{shown}:{port}"
        return cls(frozenset(map(_plain, [*own, home])), _plain(home))

    @property
    def is_secure(self) -> bool:
        """Whether people use https, so that cookies need never travel without it."""
        return self.home.startswith("https://")

    def has_host(self, host: str) -> bool:
        """Return whether a Host header names us. Any other name may be DNS rebinding."""
        return any(_plain(f"{scheme}://{host}") in self.origins for scheme in ("http", "https"))

    def may_post(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request that changes something was made by one of our own pages."""
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        if origin is not None:
            return _plain(origin) in self.origins
        referer = urlsplit(headers.get("referer", ""))
        return not referer.netloc or _plain(f"{referer.scheme}://{referer.netloc}") in self.origins


def _plain(origin: str) -> str:
    """Normalise an origin as browsers write it: lower case, without the default port of its scheme."""
    lower = origin.lower()
    for scheme, port in (("https", ":443"), ("http", ":80")):
        if lower.startswith(f"{scheme}://") and lower.endswith(port):
            return lower.removesuffix(port)
    return lower


class SecurityHeaders:
    """Adds the headers to every response, and answers only requests for its own host names."""

    def __init__(self, app: ASGIApp, addresses: Addresses) -> None:
        self._app = app
        self._addresses = addresses
        self._headers = dict(HEADERS)
        if addresses.is_secure:
            self._headers["Strict-Transport-Security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        if scope["type"] != "http":
            return
        host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
        if not self._addresses.has_host(host) and scope["path"] not in ("/live", "/ready"):
            refusal = PlainTextResponse("This host name is not configured for the console.", 421)
            await refusal(scope, receive, sending)
            return
        await self._app(scope, receive, sending)
