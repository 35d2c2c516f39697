"""Processes and directories that cannot outlive this process, however it ends."""

import atexit
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

# gRPC would run handlers of its own in a child that is forked and not yet Postgres, and they can wait for ever.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

_WATCHER = Path(__file__).with_name("watcher.py")
# The child names itself to the watcher before it becomes the server: there is no moment in between.
_INTRODUCE = 'echo "process $$ $0" >&0 && exec "$@" </dev/null'


class Child:
    """One server process, ended by its own pid."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The pid of the server itself, not of a wrapper."""
        return self._process.pid

    def code(self) -> int | None:
        """The exit code once the process has ended, else None."""
        return self._process.poll()

    def cpu_seconds(self) -> float:
        """User and system time of the process and its living children so far."""
        import psutil  # the linter's environment loads this module and has no psutil

        process = psutil.Process(self.pid)
        times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
        return float(sum(one.user + one.system for one in times))

    def wait(self, timeout: float) -> int:
        """Return the exit code once the process has ended by itself; one that goes on for longer is killed."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            self.end(signal.SIGKILL)
            raise TimeoutError(f"process {self.pid} went on for more than {timeout:.0f} s") from error
        return self.end()

    def end(self, number: int = signal.SIGTERM, timeout: float = 10.0) -> int:
        """Send the signal, wait, insist with SIGKILL; return the exit code."""
        if self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
        code = self._process.wait()
        _tell(f"ended {self.pid}")
        return code


def spawn(
    command: Sequence[str | os.PathLike[str]],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    user: int | None = None,
    last_signal: int = signal.SIGKILL,
) -> Child:
    """Start a server that writes to `log` and gets `last_signal` when we vanish."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _INTRODUCE, str(int(last_signal)), *command],
            stdin=_line(),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=None if environment is None else dict(environment),
            cwd=directory,
            start_new_session=True,  # Ctrl-C in a terminal is for pytest, which stops us in order
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
    return Child(process)


def fresh_directory(name: str, *, in_memory: bool = True) -> Path:
    """A new directory, in memory where the machine has that, gone when we are."""
    memory = Path("/dev/shm")
    place = memory if in_memory and os.access(memory, os.W_OK) else None
    _line()  # without a watcher there would be no one to remove it
    directory = Path(tempfile.mkdtemp(prefix=f"verbworker-{name}-", dir=place))
    _tell(f"directory {directory}")
    return directory


def remove(directory: Path) -> None:
    """Remove a fresh directory and let the watcher forget it."""
    shutil.rmtree(directory, ignore_errors=True)
    _tell(f"removed {directory}")


def fresh_log(name: str) -> Path:
    """A new empty file for what a server prints, gone when we are."""
    _line()
    descriptor, log = tempfile.mkstemp(prefix=f"verbworker-{name}-", suffix=".log")
    os.close(descriptor)
    _tell(f"file {log}")
    return Path(log)


def close_log(log: Path, *, keep: bool) -> None:
    """Remove a log, or keep it for a person to read; the watcher forgets it either way."""
    if not keep:
        log.unlink(missing_ok=True)
    _tell(f"removed {log}")


def _tell(sentence: str) -> None:
    line = _line()
    line.write(f"{sentence}\n".encode())
    line.flush()


@functools.cache
def _line() -> IO[bytes]:
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_WATCHER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    if watcher.stdin is None:
        raise RuntimeError("the watcher has no standard input")
    atexit.register(_dismiss, watcher)
    return watcher.stdin


def _dismiss(watcher: subprocess.Popen[bytes]) -> None:
    if watcher.stdin is not None:
        watcher.stdin.close()
    watcher.wait()
