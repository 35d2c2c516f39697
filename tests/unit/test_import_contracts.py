"""The import contracts of pyproject.toml name every package, and a forbidden import breaks them."""

import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter import configuration
from importlinter.contracts.forbidden import ForbiddenContract

ROOT = Path(__file__).parents[2]
FRONT_DOOR = "verbs import the front door only"
ENGINE = "an engine is chosen in one file"
VARIABLES = "results become variables in the engines"
INNER = {
    f"verbworker.{path.stem}"
    for path in (ROOT / "verbworker").iterdir()
    if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    configuration.configure()
    return grimp.build_graph("verbworker", "verblint", "verbs", include_external_packages=True, cache_dir=None)


def options(name: str) -> dict[str, Any]:
    """Return a contract as it is written."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(contract for contract in written if contract["name"] == name)


def holds(name: str, graph: grimp.ImportGraph, importer: str, imported: str) -> bool:
    """Return whether a contract holds when one more module imports another."""
    changed = deepcopy(graph)  # a check removes what the contract ignores
    changed.add_import(importer=importer, imported=imported)
    written = {**options(name), "allow_indirect_imports": "true"}  # the linter takes it as a text
    contract = ForbiddenContract(name, {"root_packages": ["verbworker", "verblint", "verbs"]}, written)
    return contract.check(changed, verbose=False).kept


def test_verbs_may_import_no_inner_module() -> None:
    assert set(options(FRONT_DOOR)["forbidden_modules"]) >= INNER


def test_every_package_is_kept_from_choosing_an_engine() -> None:
    """`testing` has the engine in memory, and `engine` is where the implementations are."""
    assert INNER - {"verbworker.__main__", "verbworker.engine", "verbworker.testing"} <= set(
        options(ENGINE)["source_modules"]
    )


@pytest.mark.parametrize("inner", sorted(INNER))
def test_a_verb_that_imports_an_inner_module_breaks_the_contract(graph: grimp.ImportGraph, inner: str) -> None:
    assert not holds(FRONT_DOOR, graph, "verbs", inner)


@pytest.mark.parametrize("engine", ["zeebe.engine", "embedded.engine", "inline.instances"])
@pytest.mark.parametrize(
    "importer", ["verbworker.work.jobs.executor", "verbworker.stores.database", "verbworker.payload.merge"]
)
def test_an_engine_imported_below_the_application_breaks_the_contract(
    graph: grimp.ImportGraph, importer: str, engine: str
) -> None:
    assert not holds(ENGINE, graph, importer, f"verbworker.engine.{engine}")


@pytest.mark.req("ADP-08", "PAY-18")
@pytest.mark.parametrize("package", sorted({*INNER - {"verbworker.engine"}, "verbworker.engine.protocol", "verbs"}))
def test_results_become_variables_in_no_package_but_the_engines(graph: grimp.ImportGraph, package: str) -> None:
    assert holds(VARIABLES, graph, "verbworker.engine.zeebe.engine", "verbworker.engine.variables")
    assert package in options(VARIABLES)["source_modules"]
    assert not holds(VARIABLES, graph, package, "verbworker.engine.variables")


def test_the_contracts_hold_with_what_they_allow(graph: grimp.ImportGraph) -> None:
    assert holds(FRONT_DOOR, graph, "verbs", "verbworker")
    assert holds(ENGINE, graph, "verbworker.work.jobs.executor", "verbworker.engine.protocol")
