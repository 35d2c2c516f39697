"""Many files in several processes: the same report, and no clean file that nobody checked."""

import os
from pathlib import Path

import pytest

from tests.support.lint_models import BARE, CLEAN, SUPPRESSED
from tests.support.model_source import ModelSource
from verblint.linter import Linter, lint_files
from verblint.parallel import available_processes, lint_in_parallel
from verblint.report import Problem, Report


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    contents = [BARE, CLEAN, SUPPRESSED, *ModelSource(5).sized(9)]
    for number, content in enumerate(contents):
        (tmp_path / f"{number:02}.bpmn").write_bytes(content)
    return [str(tmp_path / f"{number:02}.bpmn") for number in range(len(contents) + 1)]


@pytest.mark.parametrize("processes", [1, 2, 3, 20])
def test_the_report_is_that_of_one_file_after_another(files: list[str], processes: int) -> None:
    linter = Linter()

    assert lint_in_parallel(linter, files, processes) == lint_files(linter, files)


def test_problems_keep_the_order_of_the_files_whatever_they_are_about(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Linter, path: str) -> Report:
        name = os.path.basename(path)
        return Report(problems=(Problem("", f"{name} has a faulty neighbour"), Problem("policies.yaml", name)))

    monkeypatch.setattr(Linter, "lint_file", fails)

    assert lint_in_parallel(Linter(), files, 3) == lint_files(Linter(), files)


def test_a_process_that_dies_leaves_problems(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()
    checked = Linter.lint_file

    def dies(self: Linter, path: str) -> object:
        if os.getpid() != parent:
            os._exit(9)
        return checked(self, path)

    monkeypatch.setattr(Linter, "lint_file", dies)
    report = lint_in_parallel(Linter(), files[:-1], 2)

    died = [problem for problem in report.problems if "died" in problem.message]
    assert died
    assert len(report.files) + len(died) == len(files) - 1
    assert report.exit_code() == 2


def test_an_error_in_a_process_leaves_problems_too(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()
    checked = Linter.lint_file

    def fails(self: Linter, path: str) -> object:
        if os.getpid() != parent:
            raise MemoryError
        return checked(self, path)

    monkeypatch.setattr(Linter, "lint_file", fails)

    assert lint_in_parallel(Linter(), files[:-1], 2).exit_code() == 2


def test_there_is_always_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_processes() >= 1
    monkeypatch.delattr(os, "sched_getaffinity")
    assert available_processes() >= 1
    monkeypatch.delattr(os, "fork")
    assert available_processes() == 1
