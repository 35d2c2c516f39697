"""The tie between tests and requirements."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.requirements import known_ids, proven, table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "with workers"])
def test_a_mark_that_names_no_requirement_stops_the_run(tmp_path: Path, workers: tuple[str, ...]) -> None:
    test = tmp_path / "test_marked.py"
    test.write_text("import pytest\n\n@pytest.mark.req('JOB-99')\ndef test_marked(): pass\n")
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "pyproject.toml", *workers]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(test)], cwd=ROOT, capture_output=True, text=True
    )

    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "unknown requirement: 'JOB-99'" in run.stderr + run.stdout
    assert "INTERNALERROR" not in run.stdout


def test_the_list_holds_every_requirement_once() -> None:
    ids = known_ids()

    assert len(ids) == len(set(ids)) == 408


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ({"a": "passed", "b": "passed"}, True),
        ({"a": "passed", "b": "skipped"}, False),
        ({"a": "passed", "b": "failed"}, False),
        ({"a": "passed"}, False),
    ],
)
def test_a_requirement_is_proven_when_all_its_tests_passed(outcomes: dict[str, str], verdict: bool) -> None:
    marks = {"a": ["JOB-01"], "b": ["JOB-01"]}

    assert proven(["JOB-01"], marks, outcomes) == {"JOB-01": verdict}


def test_a_requirement_without_tests_is_unproven() -> None:
    assert proven(["JOB-01"], {}, {}) == {"JOB-01": False}


def test_the_table_counts_by_capability_and_names_what_is_missing() -> None:
    lines = table({"REG-01": True, "REG-02": False, "X-01": True}).splitlines()

    assert [line.split() for line in lines[1:]] == [["REG", "1/2", "02"], ["X", "1/1"], ["total", "2/3"]]
