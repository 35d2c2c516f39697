"""Requests to other services on real sockets: bounded, never redirected with a secret, never over an unsafe address."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.support.http_server import served, unserved
from tests.support.ports import LOOPBACK
from verbworker.errors import ContractInvalid
from verbworker.http.http_client import HttpClient
from verbworker.http.oidc import Issuer, IssuerError

CLIENT = HttpClient(timeout_s=5.0, largest_answer=1000)
Responder = Callable[[BaseHTTPRequestHandler], tuple[int, dict[str, str], bytes]]


@contextmanager
def answering(respond: Responder) -> Iterator[str]:
    """A server until the end of the block; yields its address."""
    server = unserved()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status, headers, body = respond(self)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            return

    server.RequestHandlerClass = Handler
    with served(server):
        yield f"http://{LOOPBACK}:{server.server_address[1]}"


async def test_an_answer_that_is_announced_beyond_the_limit_is_not_read() -> None:
    with answering(lambda _: (200, {}, json.dumps(["x" * 5000]).encode())) as url:
        reply = await CLIENT.get(url)

    assert (reply.body, reply.is_whole, reply.json()) == (b"", False, None)


async def test_a_compressed_answer_is_not_unpacked() -> None:
    seen: list[str | None] = []

    def respond(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        seen.append(request.headers["Accept-Encoding"])
        return 200, {"Content-Encoding": "gzip"}, b"no gzip"

    with answering(respond) as url:
        reply = await CLIENT.get(url)

    assert (seen, reply.body) == (["identity"], b"no gzip")


def redirect(place: str) -> Responder:
    """Redirect from the first page, and answer any other."""
    return lambda request: (302, {"Location": place}, b"") if request.path == "/" else (200, {}, b"{}")


async def test_a_secret_is_not_sent_on_to_another_address() -> None:
    with answering(redirect("/there")) as url:
        reply = await CLIENT.send("POST", url, form={"client_secret": "s3cret"})

    assert reply.status == 302


async def test_a_document_is_followed_to_another_address() -> None:
    with answering(redirect("/there")) as url:
        reply = await CLIENT.get(url)

    assert reply.status == 200


async def test_a_document_is_not_followed_to_an_unsafe_address() -> None:
    with answering(redirect("http://keys.test/jwks")) as url, pytest.raises(ContractInvalid, match="https"):
        await CLIENT.get(url)


async def test_no_answer_is_an_error_without_the_secret() -> None:
    with pytest.raises(ConnectionError) as failed:
        await CLIENT.send("POST", "http://127.0.0.1:1/token", form={"client_secret": "s3cret"})

    assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize("url", [f"http://{'x' * 70}.test/", "http://[::1/", "http://a:b/"])
async def test_an_address_that_cannot_exist_is_told_from_one_that_does_not_answer(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        await CLIENT.send("GET", url)


@pytest.mark.parametrize("scheme", ["file:///etc/hostname", "ftp://127.0.0.1/", "no-scheme"])
async def test_only_http_is_spoken(scheme: str) -> None:
    with pytest.raises(ConnectionError):
        await CLIENT.send("GET", scheme)


def configuration(url: str, **changes: object) -> dict[str, object]:
    names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    return {"issuer": url, **{name: f"{url}/{name}" for name in names}, **changes}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"issuer": "https://another.test"}, "names itself differently"),
        ({"token_endpoint": None}, "does not name its endpoints"),
        ({"jwks_uri": "/etc/keys"}, "does not name its endpoints"),
        ({"token_endpoint": "http://tokens.test/"}, "without https"),
    ],
)
async def test_a_configuration_that_leads_elsewhere_is_refused(changes: dict[str, object], words: str) -> None:
    found: dict[str, object] = {}
    with answering(lambda _: (200, {}, json.dumps(found).encode())) as url:
        found |= configuration(url, **changes)
        with pytest.raises(IssuerError, match=words):
            await Issuer(url, "console").endpoint("token_endpoint")


async def test_a_token_endpoint_that_redirects_is_not_followed() -> None:
    met: list[str] = []

    def respond(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        met.append(request.path)
        if request.path.startswith("/.well-known"):
            return 200, {}, json.dumps(configuration(url)).encode()
        return 303, {"Location": f"{url}/stolen"}, b""

    with answering(respond) as url, pytest.raises(IssuerError, match="303"):
        await Issuer(url, "console").redeem({"code": "c"}, "console", "s3cret")

    assert met == ["/.well-known/openid-configuration", "/token_endpoint"]


def test_one_module_speaks_http_to_others() -> None:
    root = Path(__file__).parents[2] / "verbworker"
    by_hand = re.compile(r"^\s*(?:import|from) (?:urllib\.request|urllib\.error|http\.client|httpx|requests)\b", re.M)
    found = [str(file.relative_to(root)) for file in root.rglob("*.py") if by_hand.search(file.read_text())]

    assert found == ["http/http_client.py"]
