"""Progress while pip or Maven works: seen at a terminal and in a log, and silent about what went well."""

import io
import sys

import pexpect  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.support.progress import main, progress

SLOW = "import time\nfor step in range(3):\n    print('Collecting step', step, flush=True)\n    time.sleep(0.3)"


def test_a_log_gets_a_line_now_and_then_and_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    code = main("installing", [sys.executable, "-c", SLOW], every=0.1)

    lines = capsys.readouterr().out.splitlines()
    assert (code, lines[0]) == (0, "installing")
    assert any("s, Collecting step" in line for line in lines[1:-1])
    assert lines[-1].startswith("installing: done after ")


def test_what_fails_tells_all_it_said_and_keeps_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    code = main("installing", [sys.executable, "-c", "print('no such package'); raise SystemExit(3)"])

    said = capsys.readouterr()
    assert (code, said.err) == (3, "no such package\n")
    assert said.out.splitlines()[-1].startswith("installing: failed after ")


def test_a_block_that_fails_is_told_and_raises() -> None:
    out = io.StringIO()

    with pytest.raises(ValueError, match="away"), progress("fetching", out, every=0.01):
        raise ValueError("away")

    assert out.getvalue().splitlines()[-1].startswith("fetching: failed after ")


def test_a_terminal_has_one_line_that_moves() -> None:
    child = pexpect.spawn(sys.executable, ["tests/support/progress.py", "installing", sys.executable, "-c", SLOW])

    child.expect("installing: 0 s, Collecting step 0")
    child.expect("\r\x1b\\[2Kinstalling: done after ")
    child.expect(pexpect.EOF)
    child.close()

    assert child.exitstatus == 0
