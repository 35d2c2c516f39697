"""Paths and patterns: which files somebody means."""

import os
from pathlib import Path

import pytest

from verblint.paths import NoMatch, expand, matches

TREE = ("a.bpmn", "b.xml", "sub/c.bpmn", "sub/deep/d.bpmn", ".hidden/e.bpmn", "node_modules/f.bpmn", "x[1].bpmn")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("argument", "found"),
    [
        ("b.xml", ["b.xml"]),
        ("missing.bpmn", ["missing.bpmn"]),
        ("sub", ["sub/c.bpmn", "sub/deep/d.bpmn"]),
        (".", ["./a.bpmn", "./sub/c.bpmn", "./sub/deep/d.bpmn", "./x[1].bpmn"]),
        (".hidden", [".hidden/e.bpmn"]),
        ("*.bpmn", ["a.bpmn", "x[1].bpmn"]),
        ("**/*.bpmn", ["a.bpmn", "sub/c.bpmn", "sub/deep/d.bpmn", "x[1].bpmn"]),
        ("sub/**/*.bpmn", ["sub/c.bpmn", "sub/deep/d.bpmn"]),
        ("sub/*/?.bpmn", ["sub/deep/d.bpmn"]),
        ("[ab].*", ["a.bpmn", "b.xml"]),
        ("[!a].*", ["b.xml"]),
        ("x[1].bpmn", ["x[1].bpmn"]),
        ("s*/**", ["sub/c.bpmn", "sub/deep/d.bpmn"]),
    ],
)
def test_an_argument_is_a_file_a_folder_or_a_pattern(tree: Path, argument: str, found: list[str]) -> None:
    assert list(expand(argument)) == found


def test_a_pattern_may_be_absolute(tree: Path) -> None:
    assert list(expand(f"{tree}/*.xml")) == [f"{tree}/b.xml"]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("*.dmn", r"\*\.dmn: no file matches"),
        ("nowhere/*.bpmn", "nowhere: No such file"),
        ("empty", "the folder holds no .bpmn file"),
        ("[z-a].bpmn", "this is not a pattern"),
    ],
)
def test_what_leads_to_no_file_is_refused(tree: Path, argument: str, words: str) -> None:
    (tree / "empty").mkdir()

    with pytest.raises(NoMatch, match=words):
        list(expand(argument))


def test_a_folder_that_cannot_be_listed_is_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.scandir

    def refuses(path: str) -> object:
        if path.endswith("deep"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    # Permissions do not stop root, as whom tests may run.
    monkeypatch.setattr(os, "scandir", refuses)

    with pytest.raises(NoMatch, match="deep: Permission denied"):
        list(expand("sub"))


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("a/b.bpmn", "a/*.bpmn", True),
        ("a/b/c.bpmn", "a/*.bpmn", False),
        ("a/b/c.bpmn", "a/**", True),
        ("c.bpmn", "**/c.bpmn", True),
        ("a[1].bpmn", "a[[]1].bpmn", True),
        ("a.bpmn", "a?bpmn", True),
        ("axbpmn", "a.bpmn", False),
        ("a[", "a[", True),
        (",.bpmn", "[+--].bpmn", True),
        ("a.bpmn", "[+--].bpmn", False),
        ("-.bpmn", "[--0].bpmn", True),
        (".bpmn", "[---].bpmn", False),
        ("-.bpmn", "[a-].bpmn", True),
        ("b.bpmn", "[-a-c].bpmn", True),
        ("^.bpmn", "[^].bpmn", True),
    ],
)
def test_a_pattern_fits_the_whole_path(path: str, pattern: str, fits: bool) -> None:
    assert matches(path, pattern) is fits
