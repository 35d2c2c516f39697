"""Every pattern is written once: a name is valid or not, whichever part of the product looks at it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from verblint.contracts import syntax

ROOT = Path(__file__).parents[2]
HOME = "lint/verblint/contracts/syntax.py"
# A class of characters that is repeated: what a regular expression has and a sentence has not.
PATTERN = re.compile(r"\[[^\]\s]+\](?:[*+]|\{\d)")
BY_SYNTAX = {
    name: found.expression if isinstance(found, syntax.Syntax) else found
    for name, found in vars(syntax).items()
    if not name.startswith("__") and isinstance(found, syntax.Syntax | str)
}


def patterns(text: str) -> Iterator[str]:
    """The regular expressions in a module, also as pieces of an f-string."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and PATTERN.search(node.value):
            yield alike(node.value)


def alike(pattern: str) -> str:
    """A pattern without what makes no difference to what it matches."""
    return pattern.replace("(?:", "(")


@cache
def written() -> dict[str, list[str]]:
    """Every regular expression of both packages, with the files that it is in."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in ("verbworker", "lint/verblint"):
        for file in sorted((ROOT / package).rglob("*.py")):
            for pattern in patterns(file.read_text()):
                found[pattern].append(str(file.relative_to(ROOT)))
    return found


def test_no_pattern_is_written_twice() -> None:
    found = written()

    assert len(found) > 30
    assert {pattern: files for pattern, files in found.items() if len(files) > 1} == {}


@pytest.mark.parametrize("name", BY_SYNTAX)
def test_the_syntax_of_a_contract_is_no_part_of_another_pattern(name: str) -> None:
    expression = alike(BY_SYNTAX[name])

    assert [
        file for pattern, files in written().items() if expression in pattern for file in files if file != HOME
    ] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('A = r"orch_[a-z]+"\nB = re.compile(r"orch_[a-z]+")', 2),
        ('A = f"{x}[0-9]{{0,8}}"', 1),
        ('A = "the list [a, b] and more"', 0),
    ],
)
def test_patterns_are_told_from_sentences(text: str, count: int) -> None:
    assert len([*patterns(text)]) == count
