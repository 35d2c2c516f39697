"""A token request: OAuth client credentials over HTTP."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from verbworker.engine.zeebe.connection import OAuth
from verbworker.errors import AccessDenied, EngineUnavailable
from verbworker.http.http_client import HttpClient, Reply

_LARGEST_ANSWER: Final = 64 * 1024  # a token with many claims has a few kilobytes
_DEFAULT_LIFETIME_S: Final = 300.0  # without expires_in: short, so that an expired token is soon replaced


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A bearer token and its lifetime."""

    value: str = field(repr=False)
    lifetime_s: float


async def fetch(oauth: OAuth, ca: Path | None, timeout_s: float) -> AccessToken:
    """Request a token once. In a private cluster a private `ca` signs both; the public CAs stay trusted."""
    try:
        reply = await HttpClient(timeout_s, _LARGEST_ANSWER, ca=ca).send("POST", oauth.token_url, form=_form(oauth))
    except TimeoutError as error:
        raise EngineUnavailable("the token server did not answer in time") from error
    except OSError as error:
        raise EngineUnavailable(f"the token server cannot be reached: {error}") from error
    except ValueError as error:
        raise AccessDenied("the token URL cannot be used: check its host name") from error
    if reply.status >= 300:
        raise _refusal(reply)
    return _token(_object(reply))


def _form(oauth: OAuth) -> dict[str, str]:
    form = {
        "grant_type": "client_credentials",
        "client_id": oauth.client_id,
        "client_secret": oauth.client_secret,
        "audience": oauth.audience,
        "scope": oauth.scope,
    }
    return {name: value for name, value in form.items() if value}


def _token(answer: dict[str, object]) -> AccessToken:
    value, lifetime = answer.get("access_token"), answer.get("expires_in", _DEFAULT_LIFETIME_S)
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
        raise AccessDenied("the token server answered without an access_token: check the token URL")
    try:
        return AccessToken(value, max(1.0, float(str(lifetime))))
    except ValueError:
        return AccessToken(value, _DEFAULT_LIFETIME_S)


def _refusal(reply: Reply) -> AccessDenied | EngineUnavailable:
    status, said = reply.status, _object(reply).get("error")
    reason = f"{status} {said[:100]}" if isinstance(said, str) else str(status)
    if status == 429 or status >= 500:
        return EngineUnavailable(f"the token server could not answer ({reason})")
    if status in (400, 401, 403):
        return AccessDenied(
            f"the token server refused this client ({reason}): check client id, secret, audience and scope"
        )
    return AccessDenied(f"the token server answered {reason}: check the token URL")


def _object(reply: Reply) -> dict[str, object]:
    answer = reply.json()
    return answer if isinstance(answer, dict) else {}
