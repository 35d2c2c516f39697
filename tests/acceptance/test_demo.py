"""`make demo`: one command, one case from the question to the decision, nothing left."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command import environment, verbworker
from tests.support.errors import Unavailable
from tests.support.sessions import MARK, ROOT, Trail, trail

STORY = [
    "> Ann asks: Open KYC case for Allianz GmbH",
    "Started",
    "kyc.create-case-record is done",
    "Awaiting documents",
    "> The customer sends: passport, register-extract",
    "Message kyc.documents-received arrived",
    "Awaiting reviewer",
    "> Ada looks at the papers and approves",
    "ada decided approve at review",
    "kyc.record-review-decision is done",
    "Completed",
    "Open KYC case for Allianz GmbH: completed",
    "decision: approved",
    "0 broken",
    "everything that was started has ended",
]


@pytest.fixture
def found() -> Iterator[Trail]:
    with trail() as one:
        yield one


def make_demo(engine: str, found: Trail) -> subprocess.CompletedProcess[str]:
    # The environment the tests run in is the one that is ready.
    binaries = f"BIN={Path(sys.executable).parent}"
    return subprocess.run(
        ["make", "--old-file=.venv/ready", "demo", f"ENGINE={engine}", binaries],
        cwd=ROOT,
        env=environment(**{MARK: found.mark, "TMPDIR": str(found.folder)}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize("engine", ["embedded", pytest.param("zeebe", marks=pytest.mark.zeebe)])
@pytest.mark.req("REG-01", "WAIT-02", "EVT-13")
def test_the_demo_plays_a_case_to_its_end_and_leaves_nothing(engine: str, found: Trail) -> None:
    done = make_demo(engine, found)
    if done.returncode == 2 and "no Java" in done.stderr:
        raise Unavailable(done.stderr.strip())

    assert done.returncode == 0, done.stdout + done.stderr
    places = [done.stdout.find(words) for words in STORY]
    assert -1 not in places, done.stdout
    assert places == sorted(places), done.stdout
    told = done.stdout[places[0] :].lower()
    assert [word for word in ("bpmn", "gateway", "zeebe", "listener", "token") if word in told] == []
    assert found.left() == []
    assert list(found.folder.glob("verbworker-demo-*")) == []


def test_a_terminal_is_shown_the_case_in_colour(found: Trail) -> None:
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("verbworker"), "demo"],
            cwd=ROOT,
            env=environment(**{MARK: found.mark, "TMPDIR": str(found.folder), "TERM": "xterm-256color"}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # how Linux says that nobody holds the other end
            while piece := screen.read(4096):
                shown += piece
        code = process.wait(60)

    assert code == 0, shown
    assert b"\x1b[1;36m> Ann asks" in shown
    assert b"Completed" in shown


def test_an_installed_package_says_where_the_demo_is(tmp_path: Path) -> None:
    # A wheel's place has no example beside it; here one is pretended by moving the package's own file.
    (tmp_path / "sitecustomize.py").write_text("import verbworker\nverbworker.__file__ = '/nowhere/verbworker/x.py'\n")

    said = verbworker("demo", directory=tmp_path, PYTHONPATH=str(tmp_path))

    assert said.code == 2
    assert said.sentence() == (
        "verbworker: the demo runs the example application, which only the repository has; run it in a checkout"
    )
