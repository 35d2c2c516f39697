"""The operators' page: every command on it can be typed, every setting is one, every link leads somewhere."""

import re
from pathlib import Path

import pytest

from tests.support.cli_walk import commands_in, misuse, shell_blocks
from verbworker.app.settings import FOREVER, Settings
from verbworker.work.upkeep.retention import SHORTEST

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "deploy" / "README.md"
TEXT = PAGE.read_text()
OTHERS = {"kubectl", "python", "tr"}


@pytest.mark.parametrize("words", list(commands_in(TEXT)), ids=" ".join)
def test_a_command_can_be_typed(words: list[str]) -> None:
    assert misuse(words) is None


def test_a_command_that_is_not_ours_is_one_that_operators_have() -> None:
    starts = {line.split()[0] for block in shell_blocks(TEXT) for line in block}

    assert starts <= {"verbworker"} | OTHERS


def test_a_command_that_cannot_be_typed_is_noticed() -> None:
    assert misuse(["frames", "relase", "1"]) == "frames has no relase"
    assert "--as-old" in str(misuse(["frames", "release", "1", "--reason", "x", "--as-old"]))
    assert "--reason" in str(misuse(["frames", "release", "1"]))
    assert misuse(["frames", "explain", "ada"]) is not None
    assert misuse(["fly"]) == "there is no command fly"


def test_a_setting_that_is_named_is_one() -> None:
    named = set(re.findall(r"VERBWORKER_([A-Z_]+)", TEXT))

    plain = {name.lower() for name in named if not name.startswith(("CONSOLE_", "INGRESS_"))}
    assert plain <= Settings.model_fields.keys()


def test_every_retention_is_a_row_with_its_default_and_the_floor_it_cannot_go_below() -> None:
    rows = {row[0]: row[1:] for row in re.findall(r"^\| `VERBWORKER_(\w+)` \| `(\w+)` \| (.+) \|$", TEXT, re.MULTILINE)}
    kept = {**Settings.model_construct().keep(), "engine_retention": Settings.model_construct().engine_retention}

    shown = {name: FOREVER if age is None else f"{age.days}d" for name, age in kept.items()}
    assert {name.lower(): default for name, (default, _) in rows.items()} == shown
    for words in (rows["KEEP_ENTRIES"][1], Settings.model_fields["keep_entries"].description or ""):
        assert f"at least {SHORTEST.days} day after their end" in words


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    }

    assert [link for link in links if link.startswith("#") and link[1:] not in anchors] == []
    assert [link for link in links if not link.startswith("#") and not (PAGE.parent / link).exists()] == []
    assert [path for path in re.findall(r"^\| `([^`]+)`", TEXT, re.MULTILINE) if "/" in path] != []
