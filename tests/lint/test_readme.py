"""The README and the hook file say what the code does."""

from pathlib import Path
from re import DOTALL, search
from tomllib import loads

import pytest
import yaml

from verblint.bpmn.element import VERBWORKER
from verblint.cli.options import check_options
from verblint.project import read_project
from verblint.report.render import FORMATS
from verblint.rulebook import build_index as shelving
from verblint.rulebook.build_index import readme_text

ROOT = Path(__file__).parents[2]
WRITTEN = (ROOT / "lint" / "README.md").read_text(encoding="utf-8")


def test_the_list_of_rules_is_that_of_the_code() -> None:
    assert readme_text(WRITTEN) == WRITTEN, "run: python -m verblint.rulebook.build_index"


def test_the_settings_of_the_readme_are_accepted(tmp_path: Path) -> None:
    shown = search(r"```toml\n(.*?)```", WRITTEN, DOTALL)
    assert shown is not None
    file = tmp_path / "pyproject.toml"
    file.write_text(shown[1])

    project = read_project(str(file))

    assert project.settings.engine == loads(shown[1])["tool"]["verblint"]["engine"]


def test_the_namespace_of_suppressions_is_named() -> None:
    assert WRITTEN.count(VERBWORKER) >= 2


def test_every_format_is_named() -> None:
    assert [form for form in FORMATS if form not in WRITTEN] == []


def test_the_hooks_run_commands_that_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())

    own = [hook for hook in hooks if hook["id"].startswith("verblint")]
    assert [hook["id"] for hook in own] == ["verblint", "verblint-fix"]
    for hook in own:
        command, *words = hook["entry"].split()
        assert (command, words[0], hook["files"]) == ("verblint", "check", r"\.bpmn$")
        assert check_options([*words[1:], "model.bpmn"]).paths == ("model.bpmn",)


def test_shelving_writes_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme, shelf = tmp_path / "README.md", tmp_path / "shelf.py"
    readme.write_text(WRITTEN)
    monkeypatch.setattr(shelving, "README", readme)
    monkeypatch.setattr(shelving, "SHELF_FILE", shelf)

    shelving.main()

    assert readme.read_text() == WRITTEN
    assert shelf.read_text() == shelving.shelf_text()
