"""A command in a mount namespace of its own, where /tmp and /dev/shm begin empty: what it leaves there is its own."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

# What a killed command leaves is removed by a process that outlives it: give that the time it needs.
_SCRIPT = """
mount --bind "$1" /mnt || exit 99
for place in /tmp /dev/shm; do mount -t tmpfs tmpfs $place && chmod 1777 $place || exit 99; done
shift
"$@" >/mnt/output 2>&1
code=$?
rest=100
while [ -n "$(find /tmp /dev/shm -mindepth 1)" ] && [ $rest -gt 0 ]; do sleep 0.2; rest=$((rest - 1)); done
find /tmp /dev/shm -mindepth 1 >/mnt/left
exit $code
"""
_NO_NAMESPACE = 99
INSIDE = Path("/mnt")
"""Where the command finds the folder it was given."""


def leave_behind(
    folder: Path, command: Sequence[str | os.PathLike[str]], *, directory: Path
) -> tuple[int, str, list[str]]:
    """Run a command; return its exit code, what it printed, and the paths it left. Skip where Linux forbids this."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare, so a run cannot have a /tmp of its own")
    words = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VERBWORKER_TEST_")}
    done = subprocess.run(
        [unshare, *words, "sh", "-c", _SCRIPT, "sealed", folder, *command],
        cwd=directory,
        env={**kept, "TMPDIR": "/tmp"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if done.returncode in (1, _NO_NAMESPACE) and not (folder / "left").exists():
        pytest.skip(f"a run cannot have a /tmp of its own here: {' '.join(done.stderr.split())}")
    return done.returncode, (folder / "output").read_text(), (folder / "left").read_text().splitlines()
