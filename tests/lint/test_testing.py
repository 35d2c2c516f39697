"""The helper for test suites of projects."""

from pathlib import Path

import pytest

from tests.support.lint_models import BARE, CLEAN
from verblint.settings import Project
from verblint.testing import assert_hollow


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.bpmn").write_bytes(CLEAN)
    return tmp_path


def test_hollow_models_pass_and_give_their_report() -> None:
    assert assert_hollow("*.bpmn").files == ("good.bpmn",)


def test_a_finding_fails_with_its_place(folder: Path) -> None:
    (folder / "bad.bpmn").write_bytes(BARE)

    with pytest.raises(AssertionError, match=r"not hollow:\nbad\.bpmn:10:29: HB215 "):
        assert_hollow("**/*.bpmn")


def test_a_pattern_without_a_match_fails() -> None:
    with pytest.raises(AssertionError, match="no file matches"):
        assert_hollow("*.bpmn", "models/*.bpmn".replace("models/", "m*/"))


def test_a_file_that_cannot_be_read_fails() -> None:
    with pytest.raises(AssertionError, match=r"gone\.bpmn: No such file"):
        assert_hollow("gone.bpmn")


def test_the_settings_of_the_project_hold(folder: Path) -> None:
    (folder / "bad.bpmn").write_bytes(BARE)
    (folder / "pyproject.toml").write_text('[tool.verblint]\nignore = ["HB215"]\n')

    assert len(assert_hollow("*.bpmn").files) == 2
    with pytest.raises(AssertionError):
        assert_hollow("*.bpmn", project=Project())
