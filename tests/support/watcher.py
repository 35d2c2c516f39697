"""A watcher: ends the processes and removes the directories and files it was told of, once its parent is gone.

It is a script of its own, started by `children`, and learns from lines on its standard input. The input
ends when the parent does, whatever ended the parent, so not even SIGKILL leaves a server behind.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

TIMEOUT = 5.0


def watch() -> None:
    """Listen until nobody holds the other end, then clean up what is left."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    processes: dict[int, int] = {}
    places: set[str] = set()
    for line in sys.stdin:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "process":
            pid, _, number = rest.partition(" ")
            processes[int(pid)] = int(number)
        elif word == "ended":
            processes.pop(int(rest), None)
        elif word in ("directory", "file"):
            places.add(rest)
        elif word == "removed":
            places.discard(rest)
    _end(processes)
    for place in places:
        _remove(place)


def _remove(place: str) -> None:
    if os.path.isdir(place):
        shutil.rmtree(place, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(place)


def _end(processes: dict[int, int]) -> None:
    left = {pid for pid, number in processes.items() if _send(pid, number)}
    deadline = time.monotonic() + TIMEOUT
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = {pid for pid in left if _send(pid, 0)}
    for pid in left:
        _send(pid, signal.SIGKILL)


def _send(pid: int, number: int) -> bool:
    try:
        os.killpg(pid, number)  # each leads a group, and its helpers are in it
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    watch()
