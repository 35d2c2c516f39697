"""Crash points: silent unless a test arms them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from verbworker.job import failpoint
from verbworker.job.failpoint import VARIABLE, Point, arm, arm_from_environment, reach


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm(None)


def test_an_unarmed_point_does_nothing() -> None:
    for point in Point:
        reach(point)

    assert failpoint._armed is None


def test_an_armed_action_hears_of_every_point() -> None:
    reached: list[Point] = []
    arm(reached.append)
    reach(Point.PUSHED)
    reach(Point.POPPED)
    arm(None)
    reach(Point.RETURNED)

    assert reached == [Point.PUSHED, Point.POPPED]


def test_an_empty_environment_arms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    arm_from_environment()

    assert failpoint._armed is None


@pytest.mark.parametrize("text", ["nowhere:kill", "popped:dance"])
def test_a_point_or_deed_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(VARIABLE, text)

    with pytest.raises((ValueError, KeyError)):
        arm_from_environment()


@pytest.mark.parametrize("text", ["popped:kill", "popped"])
def test_the_environment_kills_a_process_at_its_point_and_at_no_other(text: str) -> None:
    script = (
        "from verbworker.job.failpoint import Point, arm_from_environment, reach\n"
        "arm_from_environment(); reach(Point.PUSHED); print('pushed', flush=True); reach(Point.POPPED); print('popped')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, VARIABLE: text},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "pushed\n")


def test_the_environment_may_stop_a_process_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setenv(VARIABLE, "pushed:stop")
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    arm_from_environment()
    reach(Point.POPPED)
    reach(Point.PUSHED)

    assert sent == [(os.getpid(), signal.SIGSTOP)]
