"""Fixtures of this floor: the whole KYC application on each engine that can hold it, a broker of the module's own."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.support.engines import GATEWAYS, RestPlace
from tests.support.kyc_provider import Provider, serve
from tests.support.kyc_world import World, opened_world
from tests.support.stages import InlineStage, Stage, embedded_stage, zeebe_stage
from tests.support.zeebe import Broker
from verbs.kyc.screening import URL

IN_THE_DATABASE = ""


@pytest.fixture(scope="module")
def site() -> Iterator[Broker]:
    """A broker of this module's own: nobody else's user tasks come by, and it may be restarted."""
    with Broker(controlled_clock=False) as broker:
        yield broker


@pytest.fixture(params=["embedded", *(pytest.param(name, marks=pytest.mark.zeebe) for name in ("zeebe", "zeebe-rest"))])
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
    return RestPlace(broker).address if engine == "zeebe-rest" else broker.address


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """The screening provider that the verbs of this process ask."""
    with serve() as provider:
        monkeypatch.setenv(URL, provider.url)
        yield provider


@pytest.fixture
async def world(dsn: str, engine: str, address: str, provider: Provider) -> AsyncIterator[World]:
    """The application with its model deployed and nobody working yet."""
    kind = "zeebe" if engine == "zeebe-rest" else engine
    async with opened_world(dsn, address, provider, engine=kind) as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage_of(request: pytest.FixtureRequest) -> AsyncIterator[Callable[[str], Awaitable[Stage]]]:
    """Opens a stage when it is first asked for; every story on it has names of its own."""
    opened: dict[str, Stage] = {}
    async with AsyncExitStack() as stack:

        async def open_stage(name: str) -> Stage:
            if name in (*GATEWAYS, "zeebe-rest"):
                gateway = request.getfixturevalue("engines").gateway(name)
                return await stack.enter_async_context(zeebe_stage(gateway))
            if name == "embedded":
                dsn = stack.enter_context(request.getfixturevalue("database_template").clone())
                return await stack.enter_async_context(embedded_stage(dsn))
            return InlineStage()

        async def stage_of(name: str) -> Stage:
            if name not in opened:
                opened[name] = await open_stage(name)
            return opened[name]

        yield stage_of
