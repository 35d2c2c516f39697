"""`make security` itself: what replays the attacks begins, counts, and says which id of the report has which tests."""

import subprocess
import sys

import pytest

from tests.security.report import REPORT
from tests.support.distributions import ROOT

pytestmark = pytest.mark.attack("CLI")


def test_the_attacks_are_replayed_and_counted() -> None:
    command = [sys.executable, "-m", "tests.security", "-k", "has_tests_that_exist"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)

    assert "did not hold" not in done.stdout
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
    assert lines["total"][1:3] == [str(len(REPORT)), str(len(REPORT))], done.stdout + done.stderr


@pytest.mark.parametrize("number", REPORT)
def test_an_attack_of_the_report_has_tests_that_exist(number: str) -> None:
    from tests.security import report

    names = [
        f"{path.name}::{line.split('def ')[1].split('(')[0]}"
        for place in ("security/test_*.py", *report.ELSEWHERE)
        for path in (ROOT / "tests").glob(place)
        for line in path.read_text().splitlines()
        if line.startswith(("def test_", "async def test_"))
    ]

    assert [name for name in names if report.replays(name, REPORT[number])]


def test_a_case_with_a_slash_in_its_brackets_is_a_case_of_its_test() -> None:
    from tests.security import report

    assert report.replays("tests/security/test_http_limits.py::test_the_host[/ready/]", REPORT["L3"])
