"""Who guesses credentials is slowed down, by its own address, and locks out nobody."""

from ipaddress import ip_network

import pytest

from tests.support.api_server import KEY, ApiServer
from verbworker.http.connections import client_address

pytestmark = pytest.mark.attack("auth")


async def test_wrong_keys_are_slowed_down_and_a_right_one_is_not(dsn: str) -> None:
    server = ApiServer(dsn)
    async with (
        server.serving(),
        server.caller("a guess") as guesser,
        server.caller(KEY) as ann,
        server.caller(None) as stranger,
    ):
        answers = [await guesser.get("/v1/entries") for _ in range(25)]
        right = await ann.get("/v1/entries")
        none = await stranger.get("/v1/entries")

    assert [answer.status_code for answer in answers[:20]] == [401] * 20
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert right.status_code == 200
    assert none.status_code == 429  # without a key is a wrong one too


PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("198.51.100.7", [], "198.51.100.7"),
        ("198.51.100.7", ["203.0.113.9"], "198.51.100.7"),  # no proxy: what it says of others does not count
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        ("10.0.0.1", ["192.0.2.1, 203.0.113.9"], "203.0.113.9"),  # the client wrote the first one itself
        ("10.0.0.1", ["192.0.2.1", "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["<script>, 203.0.113.9 "], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["not an address"], "not an address"),
        ("fd00::1", ["2001:db8::7"], "2001:db8::7"),
        ("", ["203.0.113.9"], ""),
    ],
)
def test_the_client_is_the_last_address_that_no_proxy_added_itself(
    peer: str, forwarded: list[str], client: str
) -> None:
    assert client_address(peer, forwarded, PROXIES) == client
