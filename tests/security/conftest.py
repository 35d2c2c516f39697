"""Servers that a whole table of attacks shares, as processes."""

from collections.abc import Iterator

import pytest

from tests.support.ingress_process import IngressProcess, ingress_process, write_app
from tests.support.postgres import Template
from tests.support.site import Site, site


@pytest.fixture(scope="module")
def shared(database_template: Template) -> Iterator[str]:
    """One database for the attacks of a module."""
    with database_template.clone() as address:
        yield address


@pytest.fixture(scope="module")
def ingress(shared: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IngressProcess]:
    """The API and ingress over it."""
    folder = tmp_path_factory.mktemp("ingress")
    write_app(folder)
    with ingress_process(folder, shared) as opened:
        yield opened


@pytest.fixture(scope="module")
def console(shared: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console over it."""
    folder = tmp_path_factory.mktemp("console")
    with site(folder, shared, directory=folder) as opened:
        yield opened
