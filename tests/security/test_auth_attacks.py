"""Credentials that were forged, guessed, mixed up or put elsewhere: none of them opens anything."""

import base64
import hmac
import json
import time
from hashlib import sha256
from uuid import UUID

import pytest

from tests.support.ingress_process import API_KEY, OTHER_KEY, WEBHOOK_SECRET, IngressProcess, envelope
from tests.support.site import KEYS, Site

pytestmark = pytest.mark.attack("auth")

JSON = {"Content-Type": "application/json"}
MESSAGE = json.dumps(envelope()).encode()


def encode(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


CLAIMS = {"iss": "https://login.example", "aud": "verbworker", "sub": "eve", "tenant_id": "acme", "exp": 9_999_999_999}
HASHED = sha256(API_KEY.encode()).hexdigest()

CREDENTIALS: dict[str, dict[str, str]] = {
    "none": {},
    "an empty key": {"X-Api-Key": ""},
    "a blank key": {"X-Api-Key": "   "},
    "half of a key": {"X-Api-Key": API_KEY[: len(API_KEY) // 2]},
    "a key and more": {"X-Api-Key": f"{API_KEY}x"},
    "two keys": {"X-Api-Key": f"{API_KEY}, {OTHER_KEY}"},
    "a key in capitals": {"X-Api-Key": API_KEY.upper()},
    "the hash of a key": {"X-Api-Key": HASHED},
    "a key in Base64": {"X-Api-Key": base64.b64encode(API_KEY.encode()).decode()},
    "a star": {"X-Api-Key": "*"},
    "a query": {"X-Api-Key": "' OR '1'='1"},
    "null": {"X-Api-Key": "null"},
    "a long key": {"X-Api-Key": "a" * 8_000},
    "letters of no ASCII": {"X-Api-Key": "\xe4\xf6\xfc"},
    "a key as a token": {"Authorization": f"Bearer {API_KEY}"},
    "a key as a password": {"Authorization": "Basic " + base64.b64encode(f"portal:{API_KEY}".encode()).decode()},
    "a key in a cookie": {"Cookie": f"X-Api-Key={API_KEY}"},
    "a key in another header": {"X-Api-Key-Id": API_KEY},
    "a token without a signature": {"Authorization": f"Bearer {encode({'alg': 'none'})}.{encode(CLAIMS)}."},
    "a token signed by nobody": {"Authorization": f"Bearer {encode({'alg': 'HS256'})}.{encode(CLAIMS)}.AAAA"},
    "a token of one part": {"Authorization": "Bearer e30"},
    "a token that names its own keys": {
        "Authorization": f"Bearer {encode({'alg': 'RS256', 'jku': 'http://127.0.0.1:1/keys'})}.{encode(CLAIMS)}.AAAA"
    },
    "an empty signature": {"webhook-id": "1", "webhook-timestamp": str(int(time.time())), "webhook-signature": ""},
    "a signature of zeros": {
        "webhook-id": "1",
        "webhook-timestamp": str(int(time.time())),
        "webhook-signature": "v1," + base64.b64encode(bytes(32)).decode(),
    },
    "a user who says so": {"X-Forwarded-User": "portal", "X-Remote-User": "portal"},
    "a forwarded address": {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1"},
}


@pytest.mark.parametrize("headers", CREDENTIALS.values(), ids=CREDENTIALS)
def test_what_is_no_credential_opens_nothing(ingress: IngressProcess, headers: dict[str, str]) -> None:
    answer = ingress.ask("POST", "/messages", MESSAGE, {**JSON, **headers})

    # Who guesses too often is told to wait before the credential is looked at twice.
    assert answer.status in (401, 429), answer.body
    assert "message_id" not in answer.body


def sign(
    body: bytes, *, at: int, identity: str = "m-9", secret: str = WEBHOOK_SECRET, version: str = "v1"
) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{identity}.{at}.".encode() + body, sha256).digest()
    text = base64.b64encode(mac).decode()
    return {"webhook-id": identity, "webhook-timestamp": str(at), "webhook-signature": f"{version},{text}"}


def now() -> int:
    return int(time.time())


SIGNED = {
    "of another body": lambda: sign(MESSAGE + b" ", at=now()),
    "of yesterday": lambda: sign(MESSAGE, at=now() - 86_400),
    "of tomorrow": lambda: sign(MESSAGE, at=now() + 86_400),
    "of another secret": lambda: sign(MESSAGE, at=now(), secret="whsec_" + "A" * 32),
    "of another version": lambda: sign(MESSAGE, at=now(), version="v2"),
    "with another id": lambda: sign(MESSAGE, at=now()) | {"webhook-id": "m-10"},
    "with another time": lambda: sign(MESSAGE, at=now()) | {"webhook-timestamp": str(now() - 7)},
    "with a time that is none": lambda: sign(MESSAGE, at=now()) | {"webhook-timestamp": "now"},
    "with a huge time": lambda: sign(MESSAGE, at=now()) | {"webhook-timestamp": "9" * 400},
    "without an id": lambda: {name: text for name, text in sign(MESSAGE, at=now()).items() if name != "webhook-id"},
    "cut short": lambda: {name: text[:-4] for name, text in sign(MESSAGE, at=now()).items()},
}


@pytest.mark.parametrize("make", SIGNED.values(), ids=SIGNED)
def test_a_signature_that_does_not_fit_opens_nothing(ingress: IngressProcess, make: object) -> None:
    assert callable(make)
    answer = ingress.ask("POST", "/messages", MESSAGE, {**JSON, **make()})

    assert answer.status in (401, 429), answer.body


@pytest.mark.parametrize("path", ["/messages", "/api/workflow/message"])
def test_a_key_does_not_speak_for_another_tenant(ingress: IngressProcess, path: str) -> None:
    body = envelope() if path == "/messages" else {"messageName": "x", "correlationKey": "k", "tenantId": "acme"}
    answer = ingress.post(body, path, key=OTHER_KEY)

    assert answer.status in (403, 422), answer.body


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/entries"),
        ("GET", "/v1/gates"),
        ("GET", "/v1/incidents"),
        ("GET", f"/v1/entries/{UUID(int=1)}/events/stream"),
        ("POST", "/v1/entries"),
        ("POST", f"/v1/gates/{UUID(int=1)}/decision"),
        ("POST", f"/v1/gates/{UUID(int=1)}/claim"),
        ("POST", f"/v1/entries/{UUID(int=1)}/cancel"),
        ("POST", f"/v1/incidents/{UUID(int=1)}/resolution"),
    ],
)
def test_a_key_for_messages_does_nothing_else(ingress: IngressProcess, method: str, path: str) -> None:
    answer = ingress.ask(method, path, b"{}" if method == "POST" else None, {**JSON, "X-Api-Key": API_KEY})

    assert answer.status == 403, answer.body


def forged(console: Site, **changes: object) -> str:
    """A session as the console writes it, signed by a stranger."""
    body = encode({"n": "ann", "t": "default", "c": "x", "e": time.time() + 3600, **changes})
    mac = hmac.new(b"a key of my own", f"session.{body}".encode(), sha256).digest()
    return f"{body}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def own(console: Site) -> str:
    return console.visitor("ann").cookies[f"vw_session_{console.port}"]


def swapped(console: Site, **changes: object) -> str:
    """The session of ann with other words under her signature."""
    body, _, mac = own(console).partition(".")
    known = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return f"{encode({**known, **changes})}.{mac}"


SESSIONS = {
    "signed by a stranger": lambda console: forged(console),
    "of another name": lambda console: swapped(console, n="bob"),
    "of another tenant": lambda console: swapped(console, t="globex"),
    "with a role": lambda console: swapped(console, r=["supervisor"]),
    "with another subject": lambda console: swapped(console, i="https://login.example", s="u-1"),
    "that never ends": lambda console: swapped(console, e=9e15),
    "without a signature": lambda console: own(console).partition(".")[0],
    "with an empty signature": lambda console: own(console).partition(".")[0] + ".",
    "with half a signature": lambda console: own(console)[:-10],
    "of nothing": lambda console: ".",
    "of no Base64": lambda console: "%%%.%%%",
    "without end": lambda console: "A" * 5_000 + ".AAAA",
    "of another server": lambda console: own(console).replace(".", "..", 1),
}


@pytest.mark.parametrize("make", SESSIONS.values(), ids=SESSIONS)
def test_a_session_that_the_console_did_not_sign_is_none(console: Site, make: object) -> None:
    assert callable(make)
    cookie = f"vw_session_{console.port}={make(console)}"
    answer = console.ask("GET", "/gates", None, {"Cookie": cookie})

    assert (answer.status, answer.headers.get("location", "")[:6]) == (303, "/login"), answer.text[:200]


PLACES = [
    "//evil.example",
    "https://evil.example",
    "/\\evil.example",
    "/%2f%2fevil.example%0d%0a",
    "javascript:alert(1)",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_login_leads_to_no_other_site(console: Site, place: str) -> None:
    form = {"key": KEYS["bob"], "next": place}
    answer = console.visitor().send("/login", form)

    assert answer.status == 303
    assert answer.headers["location"].startswith("/")
    assert not answer.headers["location"].startswith(("//", "/\\"))
    assert "\r" not in answer.headers["location"]
