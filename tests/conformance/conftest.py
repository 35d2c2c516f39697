"""Fixtures of this floor: the whole KYC application on each engine that can hold it, a broker of the module's own."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.kyc_provider import Provider, serve
from tests.support.kyc_world import World, opened_world
from tests.support.zeebe import Broker
from verbs.kyc.screening import URL

IN_THE_DATABASE = ""


@pytest.fixture(scope="module")
def site() -> Iterator[Broker]:
    """A broker of this module's own: nobody else's user tasks come by, and it may be restarted."""
    with Broker(controlled_clock=False) as broker:
        yield broker


@pytest.fixture(params=["embedded", pytest.param("zeebe", marks=pytest.mark.zeebe)])
def engine(request: pytest.FixtureRequest) -> str:
    """The engines that hold the whole application; a test that asks for the world runs once on each."""
    name: str = request.param
    return name


@pytest.fixture
def address(request: pytest.FixtureRequest, engine: str) -> str:
    """Where the engine is; one in the database has no address of its own."""
    if engine == "embedded":
        return IN_THE_DATABASE
    broker: Broker = request.getfixturevalue("site")
    return broker.address


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """The screening provider that the verbs of this process ask."""
    with serve() as provider:
        monkeypatch.setenv(URL, provider.url)
        yield provider


@pytest.fixture
async def world(dsn: str, engine: str, address: str, provider: Provider) -> AsyncIterator[World]:
    """The application with its model deployed and nobody working yet."""
    async with opened_world(dsn, address, provider, engine=engine) as world:
        yield world
