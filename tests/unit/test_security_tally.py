"""What `make security` counts: each attack once, and one that fails in any phase did not hold."""

from typing import Any, Literal

import pytest

from tests.security.__main__ import Tally


def report(name: str, outcome: Literal["passed", "failed", "skipped"], when: Any = "call") -> pytest.TestReport:
    return pytest.TestReport(name, ("f", 1, name), {}, outcome, None, when)


def tally(*reports: pytest.TestReport) -> list[list[str]]:
    counted = Tally()
    counted.groups = {"a": "HTTP", "b": "HTTP", "c": "auth", "d": "other"}
    for one in reports:
        counted.pytest_runtest_logreport(one)
    return [line.split() for line in counted.lines()]


def test_attacks_are_counted_by_group_and_a_group_without_any_is_shown() -> None:
    lines = tally(report("a", "passed"), report("b", "failed"), report("c", "passed"), report("d", "passed"))

    assert ["HTTP", "2", "1"] in lines
    assert ["auth", "1", "1"] in lines
    assert ["generated", "code", "0", "0"] in lines
    assert ["other", "1", "1"] in lines
    assert ["total", "4", "3"] in lines
    assert lines[-1] == ["did", "not", "hold:", "b"]


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_an_attack_that_fails_beside_its_call_did_not_hold(when: str) -> None:
    before = () if when == "setup" else (report("a", "passed"),)

    assert ["HTTP", "1", "0"] in tally(*before, report("a", "failed", when))


def test_a_skipped_attack_was_not_tried() -> None:
    assert ["HTTP", "0", "0", "1"] in tally(report("a", "skipped", "setup"))
