"""Crash points: named places in a job's lifecycle where tests can interrupt it.

Nothing happens at a point unless a test arms it. The only setting that arms a running worker is the environment
variable below, which the chaos tests use: `VERBWORKER_FAILPOINT=popped:kill`.
"""

import os
import signal
from collections.abc import Callable
from enum import StrEnum

VARIABLE = "VERBWORKER_FAILPOINT"


class Point(StrEnum):
    """Where a crash may happen, in lifecycle order."""

    DELIVERED = "delivered"  # C0: nothing is written yet
    PUSHED = "pushed"  # C1, C2: the frame is started, the verb is not
    PERFORMED = "performed"  # C4: the effect may have happened, the verdict is not stored
    POPPED = "popped"  # C6: the verdict is stored, the engine does not know
    RETURNED = "returned"  # C7: the engine knows, we have not recorded it
    FAILED = "failed"  # C8, C9: a failure is stored, the engine does not know


Action = Callable[[Point], None]
_armed: Action | None = None


def reach(point: Point) -> None:
    """Pass a crash point. Does nothing unless armed."""
    if _armed is not None:
        _armed(point)


def arm(action: Action | None) -> None:
    """Call `action` at every crash point from now on; None disarms."""
    global _armed
    _armed = action


def arm_from_environment() -> None:
    """Arm the point in the environment variable, for worker processes under test."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return
    name, _, effect = text.partition(":")
    point = Point(name)
    number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[effect or "kill"]

    def send_signal(reached: Point) -> None:
        if reached is point:
            os.kill(os.getpid(), number)

    arm(send_signal)
