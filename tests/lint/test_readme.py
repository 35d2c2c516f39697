"""The README and the hook file say what the code does."""

import sys
from pathlib import Path
from re import DOTALL, MULTILINE, findall, search
from tomllib import loads
from types import FrameType

import pytest
import yaml

from tests.support.lint_models import BARE
from verblint import rule_pages
from verblint.bpmn.element import VERBWORKER
from verblint.cli import check_options, main
from verblint.report import FORMATS
from verblint.rule_pages import readme_text
from verblint.rules.index import FAMILIES
from verblint.settings import read_project

ROOT = Path(__file__).parents[2]
WRITTEN = (ROOT / "lint" / "README.md").read_text(encoding="utf-8")


def test_the_list_of_rules_is_that_of_the_code() -> None:
    assert readme_text(WRITTEN) == WRITTEN, "run: python -m verblint.rule_pages"


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


def test_the_list_is_written_into_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(WRITTEN.replace("| HB001 |", "| HB000 |"))
    monkeypatch.setattr(rule_pages, "README", readme)

    rule_pages.main()

    assert readme.read_text() == WRITTEN


# What the walk calls and does not count: the subjects, and what words paths and messages.
CALLED = ("bpmn/", "feel/", "flow/", "contracts/", "startup/", "fixes/", "paths.py", "names.py")


def test_the_walk_names_every_module_from_the_command_line_to_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(Path(rule_pages.__file__).parent) + "/"
    monkeypatch.chdir(tmp_path)
    Path("bare.bpmn").write_bytes(BARE)
    walked: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename.startswith(folder) and frame.f_code.co_name != "<module>":
            walked.add(frame.f_code.co_filename.removeprefix(folder))

    sys.setprofile(note)
    try:
        code = main(["check", "bare.bpmn"])
    finally:
        sys.setprofile(None)

    assert code == 1
    named = findall(r"^[1-8]\. `([a-z/]+\.py|rules/<family>\.py)` ", WRITTEN, MULTILINE)
    families = {f"rules/{name}.py" for name in FAMILIES}
    steps = {"rules/<family>.py" if name in families else name for name in walked if not name.startswith(CALLED)}
    assert steps == set(named)
    assert len(named) == 8


def test_outside_of_a_checkout_the_list_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verblint.rule_pages.README", tmp_path / "README.md")

    with pytest.raises(SystemExit, match="writes into a checkout"):
        rule_pages.main()
