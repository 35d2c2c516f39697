"""Fixtures of the chaos floor: a server and a broker of its own, because both get killed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.provider import Provider
from tests.chaos.site import Site
from tests.support.postgres import Postgres, Template
from tests.support.zeebe import Broker


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """A Postgres that keeps what it confirmed, as a worker demands."""
    server = Postgres({"fsync": "on"}).start()
    yield server
    server.stop(keep_log=request.session.testsfailed > 0)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A Zeebe broker that tests of this floor may stop, freeze and kill, as long as they bring it back."""
    broker = Broker(controlled_clock=False).start()
    yield broker
    broker.stop(keep_log=request.session.testsfailed > 0)


@pytest.fixture(scope="session")
def chaos_template(server: Postgres) -> Iterator[Template]:
    """The migrated database that every test's own is cloned from."""
    template = Template(server.dsn)
    template.build()
    yield template
    template.drop()


@pytest.fixture
def site_at(chaos_template: Template, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Callable[[str], Site]]:
    """Makes the place of one run: a database, a provider, names and a directory of its own, on a broker's address."""
    with chaos_template.clone() as dsn, Provider(tmp_path) as provider:
        yield lambda address: Site(dsn, address, provider, unique("chaos"), tmp_path)


@pytest.fixture
def site(site_at: Callable[[str], Site], cluster: Broker) -> Site:
    """The place of one run on the broker that this floor shares."""
    return site_at(cluster.address)
