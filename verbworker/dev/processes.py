"""Child processes that end with us: signalled first, killed in the end."""

import asyncio
import ctypes
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # from linux/prctl.h; Python has no name for it


def end_with_parent(number: int) -> Callable[[], None] | None:
    """Return what a new process runs before its program, so that it gets a signal when this process dies, however.

    Only Linux can do that; elsewhere it is None, and children of a killed process are left to its next start.
    """
    if not sys.platform.startswith("linux"):
        return None
    # Loaded here: after a fork nothing should be imported.
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask_for_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it died meanwhile
            os._exit(1)

    return ask_for_signal


async def end(process: Process, number: int = signal.SIGTERM, *, last: int = signal.SIGKILL, within: float = 10) -> int:
    """Ask a process to end, insist if it does not, and return its exit code."""
    for insisting in (number, last, signal.SIGKILL):
        if process.returncode is not None:
            break
        process.send_signal(insisting)
        try:
            async with asyncio.timeout(within):
                await process.wait()
        except TimeoutError:
            continue
    return await process.wait()
