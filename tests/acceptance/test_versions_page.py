"""The table of Camunda versions: every cell says how it is known, and a tested one names a test that exists."""

import re
from collections.abc import Iterator

import pytest

from tests.support.docs_pages import DOCS, ROOT

PAGE = DOCS / "explanation" / "versions.md"
VERSIONS = ["8.6", "8.7", "8.8", "8.9", "8.10"]
_KNOWN = re.compile(
    r"(?:[a-z ]+, )?"
    r"(?:tested on (?P<on>8\.[\w.-]+): `(?P<test>test_\w+)`|recorded from 8\.(?:9\.17|10)|by documentation)"
)
# The engines that tests run on, by the version of their column.
_ENGINES = {"8.6": "8.6.0", "8.8": "8.8.21", "8.9": "8.9.0-rc2"}


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
