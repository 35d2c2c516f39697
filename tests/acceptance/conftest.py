"""Fixtures that the console's tests share: one database and one console for the tests that only add to them."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import Template
from tests.support.site import Site, parked, site
from verbworker.stores.cases.gates import HumanGate

_elements = itertools.count(100)


@pytest.fixture(scope="module")
def shared(database_template: Template) -> Iterator[str]:
    """One database for the tests that only add to it."""
    with database_template.clone() as address:
        yield address


@pytest.fixture(scope="module")
def opened(shared: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console over it, with the verbs of the example."""
    folder, root = tmp_path_factory.mktemp("console"), Path(__file__).parents[2]
    with site(folder, shared, "--app", "verbs:registry", directory=root) as running:
        yield running


@pytest.fixture
def gate(shared: str) -> HumanGate:
    """A gate of its own for every test."""
    return parked(shared, element=next(_elements))
