"""The watchdog on a thread that really stands still: it tells where, cuts the engine off, and sees it run again."""

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from verbworker import metrics
from verbworker.work.feeds.watchdog import Watchdog

TIMEOUT = 0.05
LONG = 30.0


class Cutter:
    """Counts the cuts, lets a test stand still until one comes, and fails when it is told to."""

    def __init__(self) -> None:
        self.cuts = 0
        self.struck = threading.Event()
        self.fails = False

    def __call__(self) -> int:
        self.cuts += 1
        self.struck.set()
        if self.fails:
            raise OSError("no such socket")
        return 3


def stalls() -> float:
    return metrics.REGISTRY.get_sample_value("verbworker_loop_stalls_total") or 0.0


def tick_until(holds: Callable[[], bool], watchdog: Watchdog) -> None:
    """Do what a healthy loop does until something holds."""
    ends = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < ends
        watchdog.tick()
        time.sleep(TIMEOUT / 20)


def said(caplog: pytest.LogCaptureFixture, words: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if words in record.getMessage()]


def test_a_loop_that_stands_still_is_cut_off_once_each_time_and_its_place_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cutter, before = Cutter(), stalls()
    with Watchdog(cutter, limit_s=TIMEOUT) as watchdog:
        for time_ in (1, 2):
            cutter.struck.clear()
            assert cutter.struck.wait(LONG)  # it stands here
            recovered = len(said(caplog, "runs again"))
            tick_until(lambda recovered=recovered: len(said(caplog, "runs again")) > recovered, watchdog)  # type: ignore[misc]
            assert cutter.cuts >= time_
    told = said(caplog, "is blocked")

    assert cutter.cuts == len(told) == stalls() - before
    assert len(told) - len(said(caplog, "runs again")) in (0, 1)
    assert "threading.py:" in str(vars(told[0])["at"])
    assert vars(told[0])["connections"] == 3


def test_a_loop_that_turns_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    cutter = Cutter()
    looks = iter(range(100))
    with Watchdog(cutter, limit_s=LONG) as watchdog:
        tick_until(lambda: next(looks, None) is None, watchdog)

    assert cutter.cuts == 0
    assert caplog.records == []


def test_a_cut_that_fails_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    cutter = Cutter()
    cutter.fails = True
    with Watchdog(cutter, limit_s=TIMEOUT) as watchdog:
        assert cutter.struck.wait(LONG)
        tick_until(lambda: bool(said(caplog, "runs again")), watchdog)
        cutter.fails = False
        cutter.struck.clear()

        assert cutter.struck.wait(LONG)


def test_with_an_engine_that_has_nothing_to_cut_it_still_tells(caplog: pytest.LogCaptureFixture) -> None:
    before, ends = stalls(), time.monotonic() + LONG
    with Watchdog(None, limit_s=TIMEOUT):
        while stalls() == before and time.monotonic() < ends:
            time.sleep(TIMEOUT)

    assert len(said(caplog, "is blocked")) == 1


def test_after_its_end_it_watches_no_more_and_may_begin_anew() -> None:
    cutter = Cutter()
    watchdog = Watchdog(cutter, limit_s=TIMEOUT)
    with watchdog:
        pass
    ended = "watchdog" not in {thread.name for thread in threading.enumerate()}
    with watchdog:
        assert cutter.struck.wait(LONG)

    assert ended


SUSPENDED = f"""
import sys, time
from verbworker.work.feeds.watchdog import Watchdog

def cut():
    print("cut", flush=True)
    return 1

with Watchdog(cut, limit_s={TIMEOUT * 10}) as watchdog:
    print("up", flush=True)
    while True:
        watchdog.tick()
        time.sleep({TIMEOUT / 5})
        ends = time.monotonic() + {TIMEOUT}
        while time.monotonic() < ends:  # a loop that has something to do
            pass
"""


def test_a_process_that_was_suspended_reads_on_what_it_was_sent() -> None:
    # Its loop is as healthy as before: a cut would throw away the jobs that were pushed meanwhile, unread.
    with subprocess.Popen([sys.executable, "-c", SUSPENDED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        for _ in range(6):
            process.send_signal(signal.SIGSTOP)
            time.sleep(TIMEOUT * 20)
            process.send_signal(signal.SIGCONT)
            time.sleep(TIMEOUT * 4)
        process.terminate()

        assert process.stdout.read() == ""
