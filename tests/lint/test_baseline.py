"""A baseline forgives what was there, however the file is laid out now, and nothing more."""

from pathlib import Path

import pytest

from tests.support.lint_models import BARE, BROKEN, model
from verblint.baseline import read_baseline, write_baseline
from verblint.linter import Linter, lint_files
from verblint.report import Report
from verblint.settings import SettingError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report(folder: Path, **contents: bytes) -> Report:
    for name, content in contents.items():
        (folder / f"{name}.bpmn").write_bytes(content)
    return lint_files(Linter(), [f"{name}.bpmn" for name in contents])


def test_what_was_written_down_is_forgiven(folder: Path) -> None:
    found = report(folder, a=BARE)

    assert write_baseline(found, "known.json") == 1
    forgiven = read_baseline("known.json").forgive(found)
    assert forgiven.findings == ()
    assert [(entry.finding.code, entry.is_in_model) for entry in forgiven.suppressed] == [("HB215", False)]


def test_another_layout_does_not_bring_a_finding_back(folder: Path) -> None:
    write_baseline(report(folder, a=BARE), "known.json")

    moved = report(folder, a=BARE.replace(b"    <", b"\n\n<"))
    assert read_baseline("known.json").forgive(moved).findings == ()


def test_what_is_new_is_reported(folder: Path) -> None:
    write_baseline(report(folder, a=BARE), "known.json")

    more = report(folder, a=model("=orch_ready and orch_other"), b=BARE)
    left = read_baseline("known.json").forgive(more).findings
    assert [(finding.file, finding.detail) for finding in left] == [("a.bpmn", "orch_other"), ("b.bpmn", "orch_ready")]


def test_each_entry_forgives_once(folder: Path) -> None:
    found = report(folder, a=BARE)
    write_baseline(found, "known.json")

    twice = Report.of([found, found])
    assert len(read_baseline("known.json").forgive(twice).findings) == 1


def test_file_safety_is_never_written_down(folder: Path) -> None:
    found = report(folder, a=BROKEN)

    assert write_baseline(found, "known.json") == 0
    assert len(read_baseline("known.json").forgive(found).findings) == 1


def test_files_are_named_from_the_folder_of_the_baseline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub").mkdir()
    write_baseline(report(folder, a=BARE), "sub/known.json")
    monkeypatch.chdir(folder / "sub")

    found = lint_files(Linter(), ["../a.bpmn"])
    assert read_baseline("known.json").forgive(found).findings == ()


def test_entries_that_no_longer_occur_are_counted(folder: Path) -> None:
    write_baseline(report(folder, a=BARE, b=BARE), "known.json")
    known = read_baseline("known.json")

    assert known.count_stale(known.forgive(report(folder, a=model()))) == 1
    assert known.count_stale(known.forgive(report(folder, a=BARE))) == 0


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "{}", '{"layout": 2, "files": {}}', '{"layout": 1, "files": []}'),
        *('{"layout": 1, "files": {"a": {}}}', '{"layout": 1, "files": {"a": [{}]}}', "\udcff", "[" * 100_000),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(folder: Path, text: str) -> None:
    Path("known.json").write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(SettingError, match="baseline"):
        read_baseline("known.json")


def test_a_baseline_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(SettingError, match="No such file"):
        read_baseline("known.json")
