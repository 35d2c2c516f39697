"""Fixtures for every floor: a real Postgres, real engines, and names no other test uses."""

import os
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.support.engines import Engines, Gateway
from tests.support.postgres import ForeignPostgres, Postgres, Template

pytest_plugins = [
    "tests.support.selection",
    "tests.support.refusal",
    "tests.support.logs",
    "tests.support.requirements",
]


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Postgres | ForeignPostgres]:
    """A running server: ours, or the one VERBWORKER_TEST_DSN names."""
    named = os.environ.get("VERBWORKER_TEST_DSN")
    if named:
        yield ForeignPostgres(named)
        return
    server = Postgres().start()
    yield server
    server.stop(keep_log=request.session.testsfailed > 0)


@pytest.fixture(scope="session")
def database_template(postgres: Postgres | ForeignPostgres) -> Iterator[Template]:
    """The migrated database that every test's own is cloned from."""
    template = Template(postgres.dsn)
    template.build()
    yield template
    template.drop()


@pytest.fixture
def dsn(request: pytest.FixtureRequest, database_template: Template) -> Iterator[str]:
    """The DSN of a migrated database that belongs to this test alone, as a worker logs in.

    The floor `stores` still tests as the owner: many of its tests put rows by the pool that they test.
    """
    is_stores = "stores" in request.path.parts and "VERBWORKER_TEST_ROLE" not in os.environ
    with database_template.clone("owner" if is_stores else None) as address:
        yield address


@pytest.fixture(scope="session")
def engines(request: pytest.FixtureRequest) -> Iterator[Engines]:
    """The real engines of this session, each started when first needed."""
    started = Engines()
    yield started
    started.stop(keep_logs=request.session.testsfailed > 0)


@pytest.fixture(scope="session")
def broker(engines: Engines) -> Gateway:
    """The session's Zeebe 8.6.0 broker."""
    return engines.gateway("zeebe")


@pytest.fixture
def gateway(request: pytest.FixtureRequest, engines: Engines) -> Gateway:
    """One engine that speaks Zeebe's gRPC; the test runs once for each that --engine allows.

    Where a module's ON names the embedded engine it runs on a database of the test's own.
    """
    if request.param == "embedded":
        # Here and not above: the linter's own tests run where no engine is installed.
        from tests.support.embedded import EmbeddedPlace

        return EmbeddedPlace(request.getfixturevalue("dsn"))
    return engines.gateway(request.param)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Turns a name into one that no other test uses: one broker serves them all."""
    suffix = uuid.uuid4().hex[:10]
    return lambda name: f"{name}-{suffix}"
