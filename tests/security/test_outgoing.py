"""Secrets that leave this process: never in the clear to another host, never on to where an answer points."""

from pathlib import Path

import pytest

from tests.support.command import verbworker
from tests.unit.test_http_client import Responder, answering
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.errors import ContractInvalid
from verbworker.http.http_client import HttpClient

pytestmark = pytest.mark.attack("auth")

SECRET = "s3cret-of-the-worker"
CLIENT = {"CAMUNDA_CLIENT_ID": "worker", "CAMUNDA_CLIENT_SECRET": SECRET}
BASIC = {"CAMUNDA_BASIC_AUTH_USERNAME": "demo", "CAMUNDA_BASIC_AUTH_PASSWORD": SECRET}
TOKEN, LOCAL = {"CAMUNDA_OAUTH_URL": "https://login.test/token"}, {"ZEEBE_ADDRESS": "https://gateway.test:26500"}
REST = "ZEEBE_REST_ADDRESS"

CLEAR: dict[str, dict[str, str]] = {
    "gRPC with a token": {**CLIENT, **TOKEN, "ZEEBE_ADDRESS": "http://gateway.test:26500"},
    "gRPC with a password": {**BASIC, "ZEEBE_ADDRESS": "grpc://gateway.test:26500"},
    "gRPC, said to be insecure": {
        **(CLIENT | TOKEN),
        "ZEEBE_ADDRESS": "gateway.test:26500",
        "ZEEBE_INSECURE_CONNECTION": "true",
    },
    "gRPC to an address": {**BASIC, "ZEEBE_ADDRESS": "http://10.0.0.1:26500"},
    "gRPC to all addresses": {**BASIC, "ZEEBE_ADDRESS": "http://0.0.0.0:26500"},
    "gRPC to a name like ours": {**BASIC, "ZEEBE_ADDRESS": "http://localhost.evil.test:26500"},
    "gRPC to an address like ours": {**BASIC, "ZEEBE_ADDRESS": "http://127.0.0.1.evil.test:26500"},
    "REST with a token": {**CLIENT, **TOKEN, **LOCAL, REST: "http://gateway.test:8080"},
    "REST with a password": {**BASIC, **LOCAL, REST: "http://gateway.test:8080"},
    "REST in capitals": {**BASIC, **LOCAL, REST: "HTTP://gateway.test:8080"},
    "REST alone": {**BASIC, REST: "http://gateway.test:8080", "ZEEBE_TRANSPORT": "rest"},
    "the token server": {**CLIENT, **LOCAL, "CAMUNDA_OAUTH_URL": "http://login.test/token"},
    "the token server in capitals": {**CLIENT, **LOCAL, "CAMUNDA_OAUTH_URL": "HTTP://login.test/token"},
    "the token server under an old name": {
        **(CLIENT | LOCAL),
        "ZEEBE_AUTHORIZATION_SERVER_URL": "http://login.test/token",
    },
    "not allowed after all": {**BASIC, "ZEEBE_ADDRESS": "http://gateway.test:26500", "ZEEBE_ALLOW_PLAINTEXT": "false"},
    "allowed by another word": {**BASIC, "ZEEBE_ADDRESS": "http://gateway.test:26500", "ZEEBE_ALLOW_PLAINTEXT": "2"},
}


@pytest.mark.parametrize("env", CLEAR.values(), ids=CLEAR)
def test_a_secret_does_not_travel_in_the_clear(env: dict[str, str]) -> None:
    with pytest.raises(ContractInvalid) as refused:
        GatewayAddress.from_environment(env)

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", ["gRPC with a token", "REST with a password", "the token server"])
def test_the_command_says_so_before_it_connects(shared: str, tmp_path: Path, name: str) -> None:
    words = ("frames", "release", "1", "--reason", "again")
    said = verbworker(*words, directory=tmp_path, dsn=shared, VERBWORKER_ENGINE_ID="cluster", **CLEAR[name])

    assert said.code == 2, said
    assert "ZEEBE_ALLOW_PLAINTEXT" in said.err
    assert SECRET not in said.out + said.err


REDIRECTS = [301, 302, 303, 307, 308]


@pytest.mark.parametrize("status", REDIRECTS)
async def test_a_secret_is_not_sent_on_by_any_redirect(status: int) -> None:
    seen: list[str] = []

    def respond(request: object) -> tuple[int, dict[str, str], bytes]:
        path = str(getattr(request, "path", ""))
        seen.append(path)
        return (status, {"Location": "/elsewhere"}, b"") if path == "/" else (200, {}, b"{}")

    responder: Responder = respond
    with answering(responder) as url:
        reply = await HttpClient(timeout_s=10, largest_answer=1000).send("POST", url, form={"client_secret": SECRET})

    assert (reply.status, seen) == (status, ["/"])
