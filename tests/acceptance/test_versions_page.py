"""The table of Camunda versions: every cell says how it is known, and the tests and recordings behind it exist."""

import importlib
import re
from collections.abc import Iterator

import pytest

from tests.support.commands_story import call_of
from tests.support.docs_pages import DOCS, ROOT
from tests.support.engines import GATEWAYS
from tests.support.recorded_8_10 import recorded as recorded_8_10
from tests.support.recorded_story import STORY, OurCall
from tests.support.version_evidence import EVIDENCE

PAGE = DOCS / "explanation" / "versions.md"
VERSIONS = ["8.6", "8.7", "8.8", "8.9", "8.10"]
_KNOWN = re.compile(
    r"(?:[a-z ]+, )?"
    r"(?:tested on (?P<on>8\.[\w.-]+): `(?P<test>test_\w+)`|recorded from 8\.(?:9\.17|10)|by documentation)"
)
# The engines that tests run on, by the version of their column.
_ENGINES = {"8.6": "8.6.0", "8.8": "8.8.21", "8.9": "8.9.0-rc2"}
# How tests name the engines of a column, over each interface.
_GATEWAYS = {
    ("gRPC", "8.6"): "zeebe",
    ("gRPC", "8.8"): "zeebe-8.8",
    ("gRPC", "8.9"): "zeebe-8.9",
    ("REST", "8.6"): "zeebe-rest",
    ("Search", "8.6"): "zeebe",
}
# It has a broker with both interfaces, and what it tests goes over REST.
_BOTH = {("REST", "test_user_tasks_rest"): "zeebe"}
# Two searches make one answer, which has a replay of its own.
_TOGETHER = {"search element instances (where it stands)", "search message subscriptions"}


def rows() -> Iterator[tuple[str, str, list[str]]]:
    """Every row of every table: the interface, the feature and its cells."""
    part = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            part = line.removeprefix("## ")
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] not in ("feature", "---"):
            yield part, cells[0], cells[1:]


CELLS = [
    pytest.param(version, cell, id=f"{part} {feature} {version}")
    for part, feature, cells in rows()
    for version, cell in zip(VERSIONS, cells, strict=True)
]


def test_there_is_a_table_for_each_interface() -> None:
    heads = [line for line in PAGE.read_text().splitlines() if line.startswith("| feature |")]

    assert {part for part, _, _ in rows()} == {"gRPC", "REST", "Search"}
    assert heads == ["| feature | " + " | ".join(VERSIONS) + " |"] * 3


@pytest.mark.parametrize(("version", "cell"), CELLS)
def test_every_cell_says_how_it_is_known(version: str, cell: str) -> None:
    found = _KNOWN.fullmatch(cell)

    assert found, f"write tested on, recorded from 8.9.17, recorded from 8.10 or by documentation, not {cell!r}"
    if found["test"]:
        assert found["on"] == _ENGINES.get(version)
        assert list((ROOT / "tests").glob(f"*/{found['test']}.py"))


def cells(words: str) -> list[tuple[str, str, str, str]]:
    """The cells that contain some words: interface, feature, version and text."""
    return [
        (part, feature, version, cell)
        for part, feature, texts in rows()
        for version, cell in zip(VERSIONS, texts, strict=True)
        if words in cell
    ]


def test_every_row_has_its_evidence() -> None:
    assert [(part, feature) for part, feature, _ in rows()] == list(EVIDENCE)


@pytest.mark.parametrize(("part", "feature", "version", "cell"), cells("tested on"))
def test_a_tested_cell_means_tests_that_run_on_that_engine(part: str, feature: str, version: str, cell: str) -> None:
    found = _KNOWN.fullmatch(cell)
    assert found is not None
    module = importlib.import_module(f"tests.conformance.{found['test']}")
    engines = getattr(module, "ON", GATEWAYS)

    assert _BOTH.get((part, found["test"]), _GATEWAYS[part, version]) in engines
    assert EVIDENCE[part, feature].tests
    assert [name for name in EVIDENCE[part, feature].tests if not hasattr(module, name)] == []


@pytest.mark.parametrize(("part", "feature", "version", "cell"), cells("recorded from"))
def test_a_recorded_cell_means_exchanges_that_we_replay(part: str, feature: str, version: str, cell: str) -> None:
    evidence = EVIDENCE[part, feature]
    if version == "8.9":
        assert cell.endswith("recorded from 8.9.17")
        names, replayed = evidence.of_8_9, {name for name, call in STORY if isinstance(call, OurCall)} | _TOGETHER
    else:
        assert (version, cell.endswith("recorded from 8.10")) == ("8.10", True)
        names = evidence.of_8_10
        replayed = {one.name for one in recorded_8_10() if one.transport == part and isinstance(call_of(one), OurCall)}

    assert names
    assert set(names) <= replayed


@pytest.mark.parametrize(("part", "feature", "version", "cell"), cells("by documentation"))
def test_a_cell_by_documentation_has_no_recording_that_would_say_more(
    part: str, feature: str, version: str, cell: str
) -> None:
    evidence = EVIDENCE[part, feature]

    assert not evidence.of_8_9 or version != "8.9"
    assert not evidence.of_8_10 or version != "8.10"
