"""The tie between tests and requirements."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.engine_versions import VERSIONS as STARTED
from tests.support.requirements import (
    BESIDE,
    VERSIONS,
    engines_proving,
    known_ids,
    proven,
    rule_table,
    table,
    unmarked,
)
from tests.support.zeebe_home import VERSION

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
    assert len([name for name in ids if name.partition("-")[0] not in BESIDE]) == 329


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


def test_a_rule_of_the_sources_without_a_marked_test_is_named_and_what_is_beside_them_is_not() -> None:
    rules = [name for name in known_ids() if name.partition("-")[0] not in BESIDE]

    assert unmarked({"a": rules}) == []
    assert unmarked({"a": [name for name in rules if name != "ADP-08"], "b": ["X-01"]}) == ["ADP-08"]


def test_the_table_counts_by_capability_and_names_what_is_missing() -> None:
    lines = table({"REG-01": True, "REG-02": False, "X-01": True}).splitlines()

    assert [line.split() for line in lines[1:]] == [
        ["REG", "1/2", "02"],
        ["sources", "1/2"],
        ["X", "1/1"],
        ["beside", "1/1"],
    ]


def test_a_rule_is_told_with_the_engines_on_which_its_tests_passed() -> None:
    marks = {"a": ["JOB-01"], "b": ["JOB-01"], "c": ["JOB-01"], "d": ["JOB-02"], "e": ["JOB-01"]}
    outcomes = {"a": "passed", "b": "passed", "c": "passed", "d": "failed", "e": "skipped"}
    engines = {"b": "embedded", "c": "zeebe-8.8", "d": "zeebe", "e": "inline"}

    found = engines_proving(marks, outcomes, engines)
    lines = rule_table({"JOB-01": True, "JOB-02": False}, found).splitlines()

    assert found == {"JOB-01": {"none": 1, "embedded": 1, "8.8.21": 1}, "JOB-02": {}}

    assert lines[0].split() == ["rule", "none", "inline", "embedded", "8.6.0", "8.8.21", "8.9.0-rc2"]
    assert lines[1].split() == ["JOB-01", "proven", "1", "1", "1"]
    assert lines[2].split() == ["JOB-02", "unproven"]


def test_the_versions_that_are_told_are_those_that_are_started() -> None:
    assert VERSIONS["zeebe"] == VERSION
    assert all(f">{VERSIONS[f'zeebe-{name}']}<" in known.pom.read_text() for name, known in STARTED.items())
