"""The mutation check of the marks: its lists fit the code, and it says what became of each mutant."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.listed import Mutant, listed, staleness
from tests.support.sealed import INSIDE, leave_behind

ROOT = Path(__file__).parents[2]
GOOD = Mutant(
    req="PAY-11",
    file="verbworker/payload/envelope.py",
    old="(*self.sub_verb_trail, step)[-TRAIL_LENGTH:]",
    new="(*self.sub_verb_trail, step)",
    tests=("tests/unit/test_payload.py::test_the_trail_keeps_the_twenty_newest_steps",),
)


def test_every_listed_mutant_fits_the_code_and_the_tests() -> None:
    assert [reason for mutant in listed() for reason in staleness(mutant)] == []


def test_every_capability_that_is_checked_has_mutants() -> None:
    families = Counter(mutant.req.partition("-")[0] for mutant in listed() if "-" in mutant.req)

    assert set(families) >= {"REG", "PAY", "ORC", "JOB", "FAIL", "TOK", "EMC", "MSG", "CMP", "LNT"}
    assert len(listed()) >= 120


@pytest.mark.parametrize(
    ("stale", "reason"),
    [
        (replace(GOOD, old="no such text"), "its old text is there 0 times, not once: 'no such text'"),
        (replace(GOOD, old="return"), "times, not once: 'return'"),
        (replace(GOOD, file="verbworker/no.py"), "its old text is there 0 times"),
        (replace(GOOD, new=GOOD.old), "it changes nothing"),
        (replace(GOOD, new="(*self.sub_verb_trail, step"), "the changed file is no Python"),
        (replace(GOOD, req="PAY-12"), "is not marked with PAY-12"),
        (
            replace(GOOD, tests=("tests/unit/test_payload.py::test_no",)),
            "there is no test tests/unit/test_payload.py::",
        ),
        (replace(GOOD, tests=("tests/unit/test_no.py::test_no",)), "there is no test tests/unit/test_no.py::test_no"),
    ],
)
def test_a_mutant_that_fits_no_more_is_an_error(stale: Mutant, reason: str) -> None:
    assert [*staleness(GOOD)] == []
    (said,) = staleness(stale)
    assert reason in said


LIST = """
[[mutant]]
req = "PAY-11"
file = "verbworker/payload/envelope.py"
old = "(*self.sub_verb_trail, step)[-TRAIL_LENGTH:]"
new = "(*self.sub_verb_trail, step)"
test = "tests/unit/test_payload.py::test_the_trail_keeps_the_twenty_newest_steps"

[[mutant]]
req = "PAY-11"
file = "verbworker/payload/envelope.py"
old = "TRAIL_LENGTH = 20  # the last"
new = "TRAIL_LENGTH = 20  # some"
test = "tests/unit/test_payload.py::test_the_trail_keeps_the_twenty_newest_steps"
"""


def test_a_mutant_is_caught_or_survives_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(LIST)
    before = (ROOT / GOOD.file).read_bytes()
    command = [sys.executable, "-m", "tests.mutants", "--jobs", "2", "--list", str(INSIDE / "list.toml")]

    code, output, left = leave_behind(tmp_path, command, directory=ROOT)

    assert code == 1, output
    assert "caught    PAY-11 verbworker/payload/envelope.py" in output
    assert "SURVIVED  PAY-11 verbworker/payload/envelope.py" in output
    assert output.splitlines()[-1] == "1 caught, 1 SURVIVED, 0 UNUSABLE of 2"
    assert left == []
    assert (ROOT / GOOD.file).read_bytes() == before


def test_a_stale_mutant_stops_the_run_before_anything_is_tried(tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(LIST.replace("TRAIL_LENGTH = 20  # the last", "TRAIL_LENGTH = 21"))
    command = [sys.executable, "-m", "tests.mutants", "--list", str(tmp_path / "list.toml")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert (run.returncode, run.stdout) == (2, "")
    assert "its old text is there 0 times, not once" in run.stderr
