"""Every command that the README shows is typed in its order, in a copy of the checkout, with real parts around it.

A command that cannot be is in `ELSEWHERE` with the reason; one that is in neither fails with its own words.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.apart import run_apart
from tests.support.cli_walk import misuse, shell_blocks
from tests.support.databases import execute
from tests.support.engines import Gateway
from tests.support.readme_terminal import opened_terminal
from tests.support.sessions import trail
from verbworker.dev.demo import screening

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CHAPTERS = [shell_blocks(chapter) for chapter in re.split(r"^(?=## )", README, flags=re.MULTILINE)]
BLOCKS = [block for chapter in CHAPTERS for block in chapter]
LINES = [line for block in BLOCKS for line in block]

# What begins like this is not typed here, and why.
ELSEWHERE = {
    "git clone": "needs the repository's address; the terminal stands in a copy of it",
    "pip install": "needs an index that has verbworker; test_packaging installs the wheels by pip",
    "python -m pip install": "the same",
    "python -m venv": "the environment is the one the tests run in; test_init makes one as a user does",
    "docker": "needs Docker; test_containers holds compose.yaml and the image to their words",
    "kubectl": "needs a cluster; test_kubernetes holds the manifests to theirs",
    "make demo ENGINE=zeebe": "test_demo plays it on a real broker",
    "make test": "this is one of its tests",
    "make check": "is run before every submission by .ci/run, and takes the whole tree",
    "make bench": "measures for minutes",
    "make chaos": "runs for long",
    "make versions": "runs for long",
    "make fuzz": "runs for long",
    "make requirements": "tells of the tests that ran last",
    "verbworker repl": "needs a terminal; test_repl types into one",
}
# A block that has a line beginning like this is not typed at all, and why. Its commands must exist all the same.
BLOCKS_ELSEWHERE = {
    "export CAMUNDA_": "needs an account at Camunda's SaaS; test_zeebe_access speaks OAuth to a server of its own",
    "docker ": "needs Docker",
    "kubectl ": "needs a cluster",
}
# What may be typed. A line that begins otherwise was never thought of.
TYPED = ("verbworker ", "verblint ", "make demo", "export ", ". ", "cd ", "python -m pytest", "python -m mypy")


def place_of(line: str) -> str | None:
    """Where a line is tried: here, elsewhere, or nowhere."""
    if any(line == start or line.startswith(f"{start} ") for start in ELSEWHERE):
        return "elsewhere"
    return "here" if line.startswith(TYPED) else None


def is_elsewhere(block: list[str]) -> bool:
    """Whether a block as a whole needs something that is not here."""
    return any(line.startswith(tuple(BLOCKS_ELSEWHERE)) for line in block)


def test_nobody_shows_a_command_that_is_tried_nowhere() -> None:
    assert [line for line in LINES if place_of(line) is None] == []


def test_shell_commands_stand_in_blocks_that_are_read() -> None:
    fences = set(re.findall(r"^```(\w*)$", README, re.MULTILINE)) - {""}

    assert not fences & {"bash", "shell", "console", "zsh"}, "write ```sh, so that the block is tried"
    assert len(LINES) >= 5


@pytest.mark.zeebe
@pytest.mark.timeout(600)
@pytest.mark.req("TST-15")
def test_every_command_of_the_readme_works_in_its_order(dsn: str, broker: Gateway) -> None:
    given = {"VERBWORKER_DSN": dsn, "VERBWORKER_ENGINE_ID": "readme", "ZEEBE_ADDRESS": broker.address}
    for tables in sorted((ROOT / "verbs").rglob("*.sql")):
        run_apart(execute(dsn, tables.read_text()))
    with (
        trail() as found,
        screening() as url,
        opened_terminal(found.folder, given, KYC_SCREENING_URL=url, VERBWORKER_TEST_DSN=dsn) as terminal,
    ):
        typed = 0
        for chapter in CHAPTERS:
            terminal.go_home()
            for line in (line for block in chapter if not is_elsewhere(block) for line in block):
                if place_of(line) == "here":
                    terminal.type(line)
                    typed += 1

    assert typed >= 5


def test_every_command_that_is_not_typed_exists_too() -> None:
    words = [shlex.split(line, comments=True) for line in LINES if line.startswith("verbworker ")]

    assert {" ".join(line): problem for line in words if (problem := misuse(line[1:]))} == {}
