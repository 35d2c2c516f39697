"""The walks in the READMEs: every file and function they name exists, and as many files as they say."""

import re
from pathlib import Path

import pytest

import verbworker

PACKAGE = Path(verbworker.__file__).parent
PAGE = (PACKAGE / "work" / "README.md").read_text()
WALKS = re.findall(
    r"^## A (?P<what>\w+): (?P<files>\d+) files.*?\n(?P<text>.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL
)
# What an engineer opens at most: two thirds of what it was before the modules were put together.
MOST = {"job": 13, "start": 10, "message": 8, "decision": 4, "deployment": 6}
# `file.py` (`function`, `function`), or (`file.py`, `function`).
NAMED = re.compile(r"`(?P<file>[a-z_/]+\.py)`(?:\s+\(|,\s+)(?P<names>`[\w.]+`(?:,\s+`[\w.]+`)*)")


def places(name: str) -> list[Path]:
    return [place for place in (PACKAGE / "work" / name, PACKAGE / name) if place.is_file()]


@pytest.mark.parametrize(("what", "files", "text"), WALKS, ids=[walk[0] for walk in WALKS])
def test_a_walk_opens_as_many_files_as_it_says(what: str, files: str, text: str) -> None:
    on_the_way = [part for part in text.split("\n\n") if not part.strip().startswith("Beside the walk")]
    named = set(re.findall(r"`([a-z_/]+\.py)`", "\n\n".join(on_the_way)))

    assert [name for name in sorted(named) if not places(name)] == []
    assert len(named) == int(files) <= MOST[what]


def test_every_walk_is_counted() -> None:
    assert {walk[0] for walk in WALKS} == set(MOST)


def test_every_file_that_the_page_names_exists() -> None:
    assert [name for name in re.findall(r"`([a-z_/]+\.py)`", PAGE) if not places(name)] == []


@pytest.mark.parametrize("folder", ["work", "stores", "engine"])
def test_every_function_is_in_the_file_that_a_walk_names_for_it(folder: str) -> None:
    walks = [
        (found["file"], name.rpartition(".")[2])
        for found in NAMED.finditer((PACKAGE / folder / "README.md").read_text())
        for name in re.findall(r"`([\w.]+)`", found["names"])
        if not name.endswith(".py")
    ]
    missing = [
        (file, name)
        for file, name in walks
        for place in [next(place for place in (PACKAGE / folder / file, PACKAGE / file) if place.is_file())]
        if not re.search(rf"^ *(?:async def|def|class) {name}\b", place.read_text(), re.MULTILINE)
    ]

    assert len(walks) >= 3
    assert missing == []
