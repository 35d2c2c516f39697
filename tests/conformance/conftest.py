"""Fixtures of this floor: a broker of the module's own, and the whole KYC application on it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.kyc_provider import Provider, serve
from tests.support.kyc_world import World, opened_world
from tests.support.zeebe import Broker
from verbs.kyc.screening import URL


@pytest.fixture(scope="module")
def site() -> Iterator[Broker]:
    """A broker of this module's own: nobody else's user tasks come by, and it may be restarted."""
    with Broker(controlled_clock=False) as broker:
        yield broker


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """The screening provider that the verbs of this process ask."""
    with serve() as provider:
        monkeypatch.setenv(URL, provider.url)
        yield provider


@pytest.fixture
async def world(dsn: str, site: Broker, provider: Provider) -> AsyncIterator[World]:
    """The application with its model deployed and nobody working yet."""
    async with opened_world(dsn, site.address, provider) as world:
        yield world
