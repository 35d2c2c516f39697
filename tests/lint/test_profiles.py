"""Profiles: what a name stands for, and that a name nobody knows is refused in one sentence."""

from pathlib import Path

import pytest

from tests.support.lint_models import CLEAN
from verblint.bpmn.ameide_schema import SHAPES
from verblint.bpmn.bpmn_schema import names
from verblint.cli import main
from verblint.contracts.profiles import BY_NAME, Profile
from verblint.settings import PROFILES, Settings

pytestmark = pytest.mark.req("X-25")


def test_every_name_of_the_settings_is_a_profile_and_the_first_is_the_default() -> None:
    assert tuple(BY_NAME) == PROFILES
    assert Settings().profile == PROFILES[0] == "hollow"
    assert all(profile.name == name for name, profile in BY_NAME.items())


@pytest.mark.parametrize("profile", BY_NAME.values(), ids=lambda profile: profile.name)
def test_a_profile_speaks_of_elements_that_there_are(profile: Profile) -> None:
    spoken = {*profile.elements, *profile.parts, *profile.definitions, *profile.single}

    assert spoken <= set(names())
    assert {part for parts in profile.parts.values() for part in parts} | set(profile.places) <= set(SHAPES)


def test_an_unknown_profile_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clean.bpmn").write_bytes(CLEAN)

    code = main(["check", "clean.bpmn", "--profile", "strict"])

    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.count("\n") == 1
    assert "--profile: invalid choice: 'strict' (choose from 'hollow', 'strict-v1', 'plain')" in captured.err


def test_the_command_line_wins_over_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clean.bpmn").write_bytes(CLEAN)
    (tmp_path / "pyproject.toml").write_text('[tool.verblint]\nprofile = "strict-v1"\n')

    assert main(["check", "clean.bpmn"]) == 1
    assert "AM753" in capsys.readouterr().out
    assert main(["check", "clean.bpmn", "--profile", "hollow"]) == 0
