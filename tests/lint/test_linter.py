"""Linting: whatever it is given, the answer is a report."""

import gc
import os
import pickle
from importlib.metadata import version
from pathlib import Path

import pytest

import verblint
from tests.support.lint_models import BARE, BROKEN, CLEAN, SUPPRESSED
from verblint.contracts.contract import Contracts
from verblint.linter import Linter, lint, lint_files, read_contracts
from verblint.report import Problem, Report, Severity
from verblint.rule import Context
from verblint.settings import Project, SettingError, Settings
from verblint.startup import NoCollection

CONTRACTS = str(Path(__file__).parent / "contracts")


def test_a_clean_model_gives_a_clean_report() -> None:
    report = lint(CLEAN, name="clean.bpmn")

    assert (report.files, report.findings, report.exit_code()) == (("clean.bpmn",), (), 0)
    assert report.problems == ()


def test_a_finding_carries_the_name_the_line_and_the_element() -> None:
    (finding,) = lint(BARE, name="bare.bpmn").findings

    assert (finding.file, finding.line, finding.column, finding.element_id) == ("bare.bpmn", 10, 29, "yes")
    assert BARE[finding.offset :].startswith(b"orch_ready")


def test_a_path_may_be_text_or_a_path(tmp_path: Path) -> None:
    file = tmp_path / "bare.bpmn"
    file.write_bytes(BARE)

    assert lint(file) == lint(str(file))
    assert lint(file).sources == {str(file): BARE}


def test_a_file_that_cannot_be_read_is_a_problem_and_not_clean(tmp_path: Path) -> None:
    report = lint(tmp_path / "missing.bpmn")

    assert report.problems == (Problem(str(tmp_path / "missing.bpmn"), "No such file or directory"),)
    assert (report.files, report.exit_code()) == ((), 2)


def test_a_name_no_system_knows_is_a_problem() -> None:
    assert lint("a\0b.bpmn").exit_code() == 2


def test_a_folder_is_not_a_model(tmp_path: Path) -> None:
    assert lint(tmp_path).exit_code() == 2


def test_a_file_the_reader_refuses_is_a_finding() -> None:
    report = lint(BROKEN)

    assert [finding.code for finding in report.findings] == ["HB001"]
    assert (report.problems, report.exit_code()) == ((), 1)


def test_no_more_of_a_file_is_read_than_a_model_may_have(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    file = tmp_path / "large.bpmn"
    file.write_bytes(b" " * (3 * 1024 * 1024))

    (finding,) = lint(file).findings

    assert finding.code == "HB004"
    assert "more than 2,097,152 bytes" in finding.message


def test_suppressed_findings_are_kept_apart() -> None:
    report = lint(SUPPRESSED)

    assert report.findings == ()
    assert [(entry.finding.code, entry.reason) for entry in report.suppressed] == [("HB215", "it is set at the start")]


def test_a_crash_is_a_finding_and_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> object:
        raise RecursionError

    monkeypatch.setattr(Context, "at", crash)
    report = lint(BARE)

    assert report.exit_code() == 2


def test_a_model_that_cannot_be_assembled_is_a_finding_and_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> object:
        raise KeyError("nobody thought of this")

    monkeypatch.setattr("verblint.rule.assemble", crash)
    report = lint(BARE, name="bare.bpmn")

    assert [finding.code for finding in report.findings] == ["HB099"]
    assert "KeyError" in report.findings[0].message
    assert (report.problems[0].subject, report.exit_code()) == ("bare.bpmn", 2)


def test_settings_reach_the_rules() -> None:
    softer = Project(severity={"HB215": Severity.WARNING})

    assert [finding.severity for finding in lint(BARE, project=softer).findings] == ["warning"]
    assert _is_clean(lint(BARE, project=Project(ignore=("bare-flag",))))
    assert not _is_clean(lint(CLEAN, project=Project(settings=Settings(profile="strict-v1"))))


def test_a_project_may_ignore_a_rule_in_some_files_only() -> None:
    project = Project(per_file_ignores={"old/*.bpmn": ("HB215",)})
    linter = Linter(project)

    assert _is_clean(linter.lint(BARE, "old/a.bpmn"))
    assert _is_clean(linter.lint(BARE, "old/b.bpmn"))
    assert not _is_clean(linter.lint(BARE, "new/a.bpmn"))


def test_patterns_are_relative_to_the_project() -> None:
    linter = Linter(Project(per_file_ignores={"old/*.bpmn": ("HB215",)}, folder="sub"))

    assert _is_clean(linter.lint(BARE, "sub/old/a.bpmn"))
    assert not _is_clean(linter.lint(BARE, "old/a.bpmn"))


def test_contracts_come_from_the_folder_of_the_project() -> None:
    assert "kyc.open-case" in read_contracts(Project(verbs=CONTRACTS)).workflows
    assert read_contracts(Project()) == Contracts()


def test_policies_outside_the_folder_are_read_too(tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    text = (Path(CONTRACTS) / "policies.yaml").read_text()
    file.write_text(text.replace("standard", "never").replace("patient", "seldom"))
    project = Project(verbs=CONTRACTS, policies=(str(file),))

    assert "never" in read_contracts(project).policies


@pytest.mark.parametrize(
    ("project", "words"),
    [
        (Project(verbs="nowhere"), "no such folder"),
        (Project(policies=("a.yaml",)), "without verbs"),
    ],
)
def test_contracts_that_are_not_there_are_refused(project: Project, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        read_contracts(project)


def test_a_folder_without_contracts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no verb contract"):
        read_contracts(Project(verbs=str(tmp_path)))


def test_a_given_day_decides_about_suppressions() -> None:
    content = SUPPRESSED.replace(b" reason=", b' until="2030-06-30" reason=')

    assert _is_clean(Linter(today="2030-06-30").lint(content, "x"))
    assert {finding.code for finding in Linter(today="2030-07-01").lint(content, "x").findings} == {"HB215", "HB902"}


def test_a_linter_survives_pickling() -> None:
    linter = pickle.loads(pickle.dumps(Linter(Project(ignore=("HB215",)), today="2030-01-01")))

    assert _is_clean(linter.lint(BARE, "x"))


def test_several_files_make_one_report(tmp_path: Path) -> None:
    (tmp_path / "a.bpmn").write_bytes(BARE)
    (tmp_path / "b.bpmn").write_bytes(CLEAN)
    paths = [str(tmp_path / name) for name in ("a.bpmn", "b.bpmn", "c.bpmn")]

    report = lint_files(Linter(), paths)

    assert (report.files, len(report.findings), len(report.problems)) == (tuple(paths[:2]), 1, 1)


@pytest.mark.parametrize(
    ("report", "allowed", "code"),
    [
        (Report(), 0, 2),
        (Report(files=("a",)), 0, 0),
        (Report(files=("a",), problems=(Problem("b", "gone"),)), 0, 2),
        (Report(files=("a",), findings=lint(BARE).findings), 5, 1),
        (Report(files=("a",), findings=lint(BARE, project=Project(severity={"HB2": Severity.WARNING})).findings), 0, 1),
        (Report(files=("a",), findings=lint(BARE, project=Project(severity={"HB2": Severity.WARNING})).findings), 1, 0),
    ],
)
def test_the_exit_code_says_how_it_went(report: Report, allowed: int, code: int) -> None:
    assert report.exit_code(allowed) == code


def test_a_problem_says_what_it_is_about() -> None:
    assert (str(Problem("a.bpmn", "gone")), str(Problem("", "nothing matches"))) == ("a.bpmn: gone", "nothing matches")


def test_the_front_door_leads_to_every_name() -> None:
    assert sorted(verblint.__all__) == verblint.__all__
    assert all(getattr(verblint, name).__name__ == name for name in verblint.__all__)


def _is_clean(report: Report) -> bool:
    return not report.findings and not report.problems


def test_the_version_is_that_of_the_installed_package() -> None:
    assert verblint.__version__ == version("verbworker-lint")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        verblint.nothing  # noqa: B018  # it raises


def test_imports_leave_the_collector_as_it_was() -> None:
    was_on, frozen = gc.isenabled(), gc.get_freeze_count()
    try:
        gc.disable()
        with NoCollection():
            pass
        assert not gc.isenabled()

        gc.enable()
        gc.freeze()
        with NoCollection():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze() if not frozen else None
        gc.enable() if was_on else gc.disable()
