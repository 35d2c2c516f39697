"""Who we are: headers, tokens and certificates, against real servers on loopback."""

import asyncio
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from pyzeebe.proto import gateway_pb2 as pb

from tests.support.certificates import Certificate, self_signed
from tests.support.gateway_in_process import serving
from tests.support.token_server import Answer, refusal, serve, token
from verbworker.engine.protocol import Ask
from verbworker.engine.zeebe import wire
from verbworker.engine.zeebe.auth import TokenAccess, fetch
from verbworker.engine.zeebe.connection import Basic, GatewayAddress, OAuth, Tls
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.engine.zeebe.gateway import Gateway
from verbworker.errors import AccessDenied, ContractInvalid, EngineError, EngineUnavailable

SECRET = "s3cret-nobody-may-see"


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("certificates"), "gateway")


@pytest.fixture(scope="module")
def client_certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("certificates"), "client")


@pytest.fixture
def unanswered() -> Iterator[threading.Event]:
    """An event that is set at the end, so that no server thread waits longer than its test."""
    event = threading.Event()
    yield event
    event.set()


def client(url: str, **fields: str) -> OAuth:
    return OAuth("worker", SECRET, url, **fields)


async def ask(connection: GatewayAddress) -> None:
    async with ZeebeEngine(connection, engine_id="test") as engine:
        await engine.facts()


async def test_a_gateway_without_authentication_is_sent_no_header() -> None:
    async with serving() as (address, gateway):
        await ask(GatewayAddress(address))

    assert gateway.headers == [None]


async def test_basic_sends_user_and_password_on_a_plain_channel() -> None:
    async with serving() as (address, gateway):
        await ask(GatewayAddress(address, credentials=Basic("demo", SECRET)))

    assert gateway.headers == ["Basic " + b64encode(f"demo:{SECRET}".encode()).decode()]


async def test_basic_sends_user_and_password_over_tls(certificate: Certificate) -> None:
    async with serving(certificate=certificate) as (address, gateway):
        tls = Tls(ca=certificate.chain)
        await ask(GatewayAddress(address, tls=tls, credentials=Basic("demo", SECRET)))

    assert gateway.headers == ["Basic " + b64encode(f"demo:{SECRET}".encode()).decode()]


async def test_a_refused_password_is_denied_and_not_tried_again() -> None:
    async with serving(guard=lambda header: False) as (address, gateway):
        with pytest.raises(AccessDenied, match="Expected a good header") as denied:
            await ask(GatewayAddress(address, credentials=Basic("demo", SECRET)))

    assert len(gateway.headers) == 1
    assert SECRET not in str(denied.value)


async def test_a_token_is_sent_on_a_plain_channel() -> None:
    with serve(lambda _: token("t-1")) as tokens:
        async with serving() as (address, gateway):
            await ask(GatewayAddress(address, credentials=client(tokens.url)))

    assert gateway.headers == ["Bearer t-1"]


async def test_a_token_is_fetched_and_sent_over_tls_with_one_private_authority(certificate: Certificate) -> None:
    with serve(lambda _: token("t-1"), certificate) as tokens:
        async with serving(certificate=certificate) as (address, gateway):
            tls = Tls(ca=certificate.chain)
            await ask(GatewayAddress(address, tls=tls, credentials=client(tokens.url)))

    assert gateway.headers == ["Bearer t-1"]


async def test_the_token_server_is_told_client_audience_and_scope() -> None:
    with serve(lambda _: token("t-1")) as tokens:
        await TokenAccess(client(tokens.url, audience="zeebe-api", scope="profile")).header()

    assert tokens.forms == [
        {
            "grant_type": "client_credentials",
            "client_id": "worker",
            "client_secret": SECRET,
            "audience": "zeebe-api",
            "scope": "profile",
        }
    ]


async def test_many_calls_at_once_wait_for_one_token() -> None:
    with serve(lambda number: token(f"t-{number}")) as tokens:
        async with serving() as (address, gateway):
            connection = GatewayAddress(address, credentials=client(tokens.url))
            async with ZeebeEngine(connection, engine_id="test") as engine, asyncio.TaskGroup() as tasks:
                for _ in range(20):
                    tasks.create_task(engine.facts())

    assert len(tokens.forms) == 1
    assert gateway.headers == ["Bearer t-1"] * 20


async def test_many_calls_at_once_share_one_failure() -> None:
    with serve(lambda _: refusal(503, "down")) as tokens:
        access = TokenAccess(client(tokens.url))
        met = await asyncio.gather(*(access.header() for _ in range(20)), return_exceptions=True)

    assert len(tokens.forms) == 1
    assert {type(error) for error in met} == {EngineUnavailable}


async def test_after_a_failure_the_next_call_asks_again() -> None:
    with serve(lambda number: refusal(503, "down") if number == 1 else token("t-2")) as tokens:
        access = TokenAccess(client(tokens.url))
        with pytest.raises(EngineUnavailable):
            await access.header()

        assert await access.header() == ("authorization", "Bearer t-2")


async def test_a_token_is_used_until_shortly_before_it_ends() -> None:
    clock, used = Clock(), []
    with serve(lambda number: token(f"t-{number}", expires_in=600)) as tokens:
        access = TokenAccess(client(tokens.url), now=clock)
        for seconds in (0, 569, 2):
            clock.seconds += seconds
            used.append(await access.header())

    assert [header[1] for header in used if header] == ["Bearer t-1", "Bearer t-1", "Bearer t-2"]


async def test_the_loop_goes_on_while_the_token_server_thinks(unanswered: threading.Event) -> None:
    asked = threading.Event()

    def answer(_: int) -> Answer:
        asked.set()
        unanswered.wait(timeout=30)
        return token("t-1")

    with serve(answer) as tokens:
        async with asyncio.TaskGroup() as tasks:
            header = tasks.create_task(TokenAccess(client(tokens.url)).header())
            await asyncio.to_thread(asked.wait, 30)
            unanswered.set()  # only a loop that was not blocked gets here

    assert header.result() == ("authorization", "Bearer t-1")


async def test_an_outdated_token_is_renewed_once_and_the_call_goes_through() -> None:
    clock = Clock()
    with serve(lambda number: token(f"t-{number}")) as tokens:
        async with serving(guard=lambda header: header == "Bearer t-2") as (address, gateway):
            access = TokenAccess(client(tokens.url), now=clock)
            await access.header()
            clock.seconds += 60
            opened = Gateway(GatewayAddress(address), access)
            await opened.open()
            await opened.send("Topology", _topology(), timeout_s=10)
            await opened.close()

    assert gateway.headers == ["Bearer t-1", "Bearer t-2"]


async def test_calls_that_meet_the_same_outdated_token_renew_it_together() -> None:
    clock = Clock()
    with serve(lambda number: token(f"t-{number}")) as tokens:
        async with serving(guard=lambda header: header == "Bearer t-2") as (address, _):
            access = TokenAccess(client(tokens.url), now=clock)
            await access.header()
            clock.seconds += 60
            opened = Gateway(GatewayAddress(address), access)
            await opened.open()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(10):
                    tasks.create_task(opened.send("Topology", _topology(), timeout_s=10))
            await opened.close()

    assert len(tokens.forms) == 2


async def test_a_new_token_that_is_refused_is_denied_without_asking_for_more() -> None:
    with serve(lambda number: token(f"t-{number}")) as tokens:
        async with serving(guard=lambda header: False) as (address, gateway):
            with pytest.raises(AccessDenied, match="CAMUNDA_TOKEN_AUDIENCE"):
                await ask(GatewayAddress(address, credentials=client(tokens.url)))

    assert (len(tokens.forms), len(gateway.headers)) == (1, 1)


async def test_a_stream_renews_an_outdated_token_too() -> None:
    clock = Clock()
    with serve(lambda number: token(f"t-{number}")) as tokens:
        async with serving(guard=lambda header: header == "Bearer t-2") as (address, gateway):
            access = TokenAccess(client(tokens.url), now=clock)
            await access.header()
            clock.seconds += 60
            opened = Gateway(GatewayAddress(address), access)
            await opened.open()
            async with aclosing(opened.listen("StreamActivatedJobs", _stream(), [], lifetime_s=60)) as pushed:
                heard = [told async for told in pushed]
            await opened.close()

    assert (heard, gateway.headers) == ([], ["Bearer t-1", "Bearer t-2"])


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (refusal(401, "invalid_client"), AccessDenied, "invalid_client"),
        (refusal(400, "invalid_scope"), AccessDenied, "invalid_scope"),
        (refusal(403, "access_denied"), AccessDenied, "access_denied"),
        (Answer(404, b"<html>"), AccessDenied, "check the token URL"),
        (Answer(302, location="http://127.0.0.1:1/elsewhere"), AccessDenied, "302"),
        (Answer(200, b"<html>"), AccessDenied, "without an access_token"),
        (Answer(200, b'["t"]'), AccessDenied, "without an access_token"),
        (token("line\nbreak"), AccessDenied, "without an access_token"),
        (refusal(429, "slow_down"), EngineUnavailable, "slow_down"),
        (refusal(500, "server_error"), EngineUnavailable, "server_error"),
        (Answer(503, b"<html>"), EngineUnavailable, "503"),
    ],
)
async def test_a_token_server_that_says_no_is_told_from_one_that_is_down(
    answer: Answer, error: type[EngineError], words: str
) -> None:
    with serve(lambda _: answer) as tokens, pytest.raises(error, match=words) as refused:
        await TokenAccess(client(tokens.url)).header()

    assert type(refused.value) is error
    assert SECRET not in str(refused.value)


async def test_a_token_without_a_lifetime_is_kept_for_a_while() -> None:
    with serve(lambda number: token(f"t-{number}", expires_in=None)) as tokens:
        access = TokenAccess(client(tokens.url))

        assert await access.header() == await access.header()


async def test_a_token_server_that_never_answers_is_given_up(unanswered: threading.Event) -> None:
    def answer(_: int) -> Answer:
        unanswered.wait(timeout=30)
        return token("late")

    with serve(answer) as tokens:
        with pytest.raises(EngineUnavailable):
            await fetch(client(tokens.url), None, 0.2)
        unanswered.set()


async def test_a_token_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        await TokenAccess(client("http://127.0.0.1:1/token")).header()


async def test_a_token_server_with_an_unknown_certificate_is_sent_nothing(certificate: Certificate) -> None:
    with serve(lambda _: token("t-1"), certificate) as tokens, pytest.raises(EngineUnavailable, match="CERTIFICATE"):
        await TokenAccess(client(tokens.url)).header()

    assert tokens.forms == []


async def test_a_token_url_that_no_host_can_have_is_denied() -> None:
    with pytest.raises(AccessDenied, match="host name"):
        await TokenAccess(client(f"http://{'x' * 70}.test/token")).header()


async def test_a_gateway_with_an_unknown_certificate_is_not_trusted(
    certificate: Certificate, client_certificate: Certificate
) -> None:
    async with serving(certificate=certificate) as (address, gateway):
        with pytest.raises(EngineUnavailable):
            await ask(GatewayAddress(address, tls=Tls(ca=client_certificate.chain)))

    assert gateway.headers == []


async def test_a_client_certificate_opens_a_gateway_that_asks_for_one(
    certificate: Certificate, client_certificate: Certificate
) -> None:
    async with serving(certificate=certificate, clients=client_certificate) as (address, gateway):
        tls = Tls(certificate.chain, client_certificate.chain, client_certificate.key)
        await ask(GatewayAddress(address, tls=tls))
        with pytest.raises(EngineUnavailable):
            await ask(GatewayAddress(address, tls=Tls(certificate.chain)))

    assert len(gateway.headers) == 1


async def test_a_missing_certificate_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContractInvalid, match=r"gone\.pem"):
        await ask(GatewayAddress(tls=Tls(ca=tmp_path / "gone.pem")))


def _topology() -> object:
    return pb.TopologyRequest()


def _stream() -> object:
    return wire.subscription(Ask("x", "w", 1000, ()), ())
