"""A blocking token request: OAuth client credentials over HTTP."""

import http.client
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import orjson

from verbworker.engine.zeebe.connection import OAuth
from verbworker.errors import AccessDenied, EngineUnavailable

_LARGEST_ANSWER: Final = 64 * 1024
_LIFETIME_UNSAID_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A bearer token and its lifetime."""

    value: str = field(repr=False)
    lifetime_s: float


def fetch(oauth: OAuth, ca: Path | None, timeout_s: float) -> AccessToken:
    """Request a token once; blocks, so call it in a thread."""
    request = urllib.request.Request(
        oauth.token_url,
        data=urlencode(_form(oauth)).encode(),
        headers={"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
    )
    try:
        opener = urllib.request.build_opener(_NoRedirect, *_secure(oauth.token_url, ca))
        with opener.open(request, timeout=timeout_s) as answer:
            return _token(answer.read(_LARGEST_ANSWER))
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(error.code, error.read(_LARGEST_ANSWER)) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise EngineUnavailable(f"the token server cannot be reached: {reason}") from error
    except ValueError as error:
        # urllib raises this for an invalid address, such as a host name that DNS does not allow.
        raise AccessDenied("the token URL cannot be used: check its host name") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: the secret is sent only to the configured address."""

    def redirect_request(self, *_: object) -> None:
        """Return None, so that the redirect becomes an error."""


def _form(oauth: OAuth) -> dict[str, str]:
    form = {
        "grant_type": "client_credentials",
        "client_id": oauth.client_id,
        "client_secret": oauth.client_secret,
    }
    if oauth.audience:
        form["audience"] = oauth.audience
    if oauth.scope:
        form["scope"] = oauth.scope
    return form


def _secure(url: str, ca: Path | None) -> list[urllib.request.HTTPSHandler]:
    if not url.lower().startswith("https:"):
        return []
    context = ssl.create_default_context()
    if ca is not None:
        # In a private cluster a private CA signs both; the public CAs stay trusted.
        context.load_verify_locations(cafile=ca)
    return [urllib.request.HTTPSHandler(context=context)]


def _token(body: bytes) -> AccessToken:
    answer = _object(body)
    value, lifetime = answer.get("access_token"), answer.get("expires_in", _LIFETIME_UNSAID_S)
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
        raise AccessDenied("the token server answered without an access_token: check the token URL")
    try:
        return AccessToken(value, max(1.0, float(str(lifetime))))
    except ValueError:
        return AccessToken(value, _LIFETIME_UNSAID_S)


def _refusal(status: int, body: bytes) -> AccessDenied | EngineUnavailable:
    said = _object(body).get("error")
    reason = f"{status} {said[:100]}" if isinstance(said, str) else str(status)
    if status == 429 or status >= 500:
        return EngineUnavailable(f"the token server could not answer ({reason})")
    if status in (400, 401, 403):
        return AccessDenied(
            f"the token server refused this client ({reason}): check client id, secret, audience and scope"
        )
    return AccessDenied(f"the token server answered {reason}: check the token URL")


def _object(body: bytes) -> dict[str, object]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return answer if isinstance(answer, dict) else {}
