"""Fixes: byte ranges replaced, everything else left as it is."""

from pathlib import Path

import pytest

from tests.support.lint_models import BARE, CLEAN, IGNORE, model
from verblint.fixes.edits import UnsafeFix, apply, compatible, diff, repair
from verblint.fixes.fix_files import apply_fixes
from verblint.linter import Linter, lint
from verblint.report import Edit, Finding, Fix, Report, Severity

FIXED = model("=orch_ready = true")


def finding(*edits: Edit, name: str = "x") -> Finding:
    return Finding(
        code="HB215",
        slug="bare-flag",
        severity=Severity.ERROR,
        message="m",
        file=name,
        line=1,
        column=1,
        end_line=1,
        end_column=2,
        fix=Fix("mend it", edits) if edits else None,
    )


def test_a_fix_takes_its_finding_away_and_touches_nothing_else() -> None:
    repaired = repair(Linter(), BARE, "x")

    assert (repaired.content, repaired.applied, repaired.report.findings) == (FIXED, 1, ())


def test_several_fixes_are_applied_at_once() -> None:
    repaired = repair(Linter(), model("=orch_a and not(orch_b)"), "x")

    assert repaired.content == model("=orch_a = true and not(orch_b = true)")
    assert repaired.applied == 2


def test_a_fix_that_uncovers_another_is_followed_by_it() -> None:
    assert repair(Linter(), model("=orch_ready = true", ignore=IGNORE), "x").content == CLEAN


def test_a_clean_file_stays_as_it_is() -> None:
    assert repair(Linter(), CLEAN, "x").content == CLEAN


def test_fixes_of_the_same_bytes_are_refused_but_the_first() -> None:
    first, second = Edit(3, 5, b"a"), Edit(4, 8, b"b")

    assert [fix.edits for fix in compatible([finding(first), finding(second), finding()])] == [(first,)]


def test_two_insertions_at_one_place_are_refused_but_the_first() -> None:
    assert len(compatible([finding(Edit(3, 3, b"a")), finding(Edit(3, 3, b"b"))])) == 1


def test_the_same_fix_of_two_findings_is_one() -> None:
    assert len(compatible([finding(Edit(3, 5, b"a")), finding(Edit(3, 5, b"a"))])) == 1


def test_neighbours_do_not_overlap() -> None:
    fixes = compatible([finding(Edit(0, 3, b"A")), finding(Edit(3, 5, b"B"))])

    assert apply(b"abcdefg", fixes) == b"ABfg"


def test_a_diff_shows_lines_and_the_missing_line_end() -> None:
    assert diff(b"a\nb", b"a\nc", "x.bpmn").splitlines() == [
        *("--- a/x.bpmn", "+++ b/x.bpmn", "@@ -1,2 +1,2 @@", " a"),
        *("-b", "\\ No newline at end of file", "+c", "\\ No newline at end of file"),
    ]
    assert diff(b"a", b"a", "x") == ""


def report_of(file: Path) -> Report:
    return lint(file)


def test_mending_writes_the_file_and_reports_what_is_left(tmp_path: Path) -> None:
    file = tmp_path / "a.bpmn"
    file.write_bytes(BARE)
    file.chmod(0o640)

    report, changes = apply_fixes(Linter(), report_of(file), write=True)

    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (FIXED, 0o640)
    assert (report.findings, report.problems) == ((), ())
    assert "+      <conditionExpression>=orch_ready = true" in changes
    assert [path.name for path in tmp_path.iterdir()] == ["a.bpmn"]


def test_mending_without_writing_leaves_the_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.bpmn"
    file.write_bytes(BARE)

    report, changes = apply_fixes(Linter(), report_of(file), write=False)

    assert file.read_bytes() == BARE
    assert (len(report.findings), bool(changes)) == (1, True)


def test_a_file_that_changed_meanwhile_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "a.bpmn"
    file.write_bytes(BARE)
    report = report_of(file)
    file.write_bytes(CLEAN)

    after, _ = apply_fixes(Linter(), report, write=True)

    assert file.read_bytes() == CLEAN
    assert "changed while it was checked" in after.problems[0].message


def test_a_file_that_vanished_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "a.bpmn"
    file.write_bytes(BARE)
    report = report_of(file)
    file.unlink()

    after, _ = apply_fixes(Linter(), report, write=True)

    assert after.problems[0].message == "not fixed: No such file or directory"


def test_a_fix_after_which_the_file_cannot_be_read_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verblint.fixes.edits.apply", lambda content, fixes: b"<broken")

    with pytest.raises(UnsafeFix, match="could not be read"):
        repair(Linter(), BARE, "x")


def test_a_fix_that_never_ends_stops_after_some_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verblint.fixes.edits.apply", lambda content, fixes: content)

    assert repair(Linter(), BARE, "x").applied == 10
