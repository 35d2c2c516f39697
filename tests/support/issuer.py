"""An OpenID issuer on loopback: real signatures, a real code exchange, and lies where a test wants them."""

import base64
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.support.http_server import served, unserved
from tests.support.ports import LOOPBACK

CLIENT = "verbworker-console"
SECRET = "a secret of the console: 1+1/2"
_KEY = ec.generate_private_key(ec.SECP256R1())


@dataclass(slots=True)
class Issuer:
    """Who logs in next, and what the issuer says of them."""

    url: str
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "u-1", "preferred_username": "ada"})
    lies: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser goes next: back to who sent it, with a code."""
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """What a code is worth, once, for whoever can prove that it is theirs."""
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None:
            return self._refuse("no such code")
        challenge = base64.urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest())
        if challenge.decode().rstrip("=") != asked["code_challenge"]:
            return self._refuse("wrong verifier")
        if _client(authorization) != (CLIENT, SECRET) or form.get("redirect_uri") != asked["redirect_uri"]:
            return self._refuse("wrong client")
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "exp": time.time() + 60,
            "nonce": asked["nonce"],
            **self.claims,
            **self.lies,
        }
        return 200, {"id_token": jwt.encode(claims, _KEY, "ES256", headers={"kid": "k1"}), "token_type": "Bearer"}

    def _refuse(self, why: str) -> tuple[int, dict[str, Any]]:
        self.refused.append(why)
        return 400, {"error": "invalid_grant"}

    def answer(self, path: str) -> dict[str, Any]:
        """What everybody may read."""
        if path == "/keys":
            return {"keys": [{**ECAlgorithm.to_jwk(_KEY.public_key(), as_dict=True), "kid": "k1", "use": "sig"}]}
        return {
            "issuer": self.lies.get("issuer", self.url),
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        }


def _client(authorization: str) -> tuple[str, str]:
    """Read the client's id and secret, which RFC 6749 wants form-encoded: a space as `+`, never as `%20`."""
    pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
    name, _, secret = pair.replace("%20", "?").partition(":")
    return unquote_plus(name), unquote_plus(secret)


@contextmanager
def issuer() -> Iterator[Issuer]:
    """An issuer until the end of the block."""
    server = unserved()
    made = Issuer(f"http://{LOOPBACK}:{server.server_address[1]}")
    server.RequestHandlerClass = _handler(made)
    with served(server):
        yield made


def _handler(made: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", made.authorize(dict(parse_qsl(parts.query))))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self._say(200, made.answer(parts.path))

        def do_POST(self) -> None:
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self._say(*made.token(form, self.headers.get("Authorization", "")))

        def _say(self, status: int, words: dict[str, Any]) -> None:
            body = json.dumps(words).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    return Handler
