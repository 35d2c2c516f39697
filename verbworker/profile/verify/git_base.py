"""The base: the locks in a git revision."""

import os
import subprocess
from dataclasses import dataclass

from verbworker.errors import CannotRun
from verbworker.profile.lock import Lock, read_lock

_LONGEST_CALL = 60.0  # seconds; reading one commit takes less, unless git waits for a person or a network
_CLEAR = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


@dataclass(frozen=True, slots=True)
class Base:
    """A revision as named by the user. Git is only queried: nothing is checked out or written."""

    revision: str

    def lock(self, path: str) -> Lock | None:
        """Return the lock at a path in this revision, or None; raises `CannotRun` if git cannot answer."""
        folder, name = os.path.split(path)
        commit = self._commit(folder)
        listed = _git(folder, "ls-tree", "-z", commit, "--", name)
        if listed.returncode != 0:
            raise CannotRun(f"git could not list {path} at {self.revision}: {_reason(listed)}")
        entry = listed.stdout.partition(b"\t")[0].split()
        if len(entry) != 3 or entry[1] != b"blob":
            return None
        content = _git(folder, "cat-file", "blob", entry[2].decode())
        if content.returncode != 0:
            raise CannotRun(f"git could not read {path} at {self.revision}: {_reason(content)}")
        return read_lock(content.stdout, f"{path} at {self.revision}")

    def _commit(self, folder: str) -> str:
        # A word with a leading dash would be parsed as an option.
        if self.revision and not self.revision.startswith("-"):
            found = _git(folder, "rev-parse", "--verify", "--quiet", f"{self.revision}^{{commit}}")
            if found.returncode == 0:
                return found.stdout.decode().strip()
        inside = _git(folder, "rev-parse", "--git-dir")
        if inside.returncode != 0:
            raise CannotRun(f"--base {self.revision}: {folder or os.curdir} is in no git repository: {_reason(inside)}")
        raise CannotRun(
            f"--base {self.revision}: git has no such revision here; a shallow clone may lack it, so fetch it first"
        )


def _git(folder: str, *words: str) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            ["git", "-C", folder or os.curdir, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, **_CLEAR},
            timeout=_LONGEST_CALL,
        )
    except FileNotFoundError:
        raise CannotRun("--base needs git, which is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"--base: git could not be run ({type(error).__name__})") from error


def _reason(done: "subprocess.CompletedProcess[bytes]") -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("fatal: ") if lines else f"it ended with {done.returncode}"
