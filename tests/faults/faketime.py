"""Clocks of single workers, moved by libfaketime where the machine has it."""

import contextlib
import glob
import os
import shutil
import subprocess
from pathlib import Path

_PLACES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/*.so.1")


def library() -> str | None:
    """The library, or None when it is not installed: then no clock jumps."""
    return next((found for place in _PLACES for found in sorted(glob.glob(place))), None)


def install() -> None:
    """Have Debian install the library where that is possible; without it clocks do not jump, and the run says so."""
    if library() is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "libfaketime"]
        subprocess.run(command, env=quiet, capture_output=True, timeout=300, check=False)


def environment(clock: Path) -> dict[str, str]:
    """The variables that have a process read its offset from a file; nothing without the library."""
    found = library()
    if found is None:
        return {}
    set_offset(clock, 0)
    return {
        "LD_PRELOAD": found,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        # A machine whose clock is set keeps its monotonic clock.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def set_offset(clock: Path, seconds: int) -> None:
    """Move the clock to so many seconds before or after the real one."""
    fresh = clock.with_suffix(".new")
    fresh.write_text(f"{seconds:+d}\n")
    fresh.replace(clock)


def forget_dead() -> None:
    """Remove what the library keeps in memory for processes that were killed: it cannot do so itself."""
    for file in Path("/dev/shm").glob("*faketime_s*m_*"):  # faketime_shm_<pid> and sem.faketime_sem_<pid>
        pid = file.name.rpartition("_")[2]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                os.unlink(file)
