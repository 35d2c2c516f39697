"""A project in a folder of its own, and what a person does there: files, git, commands, and what a README says."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from tests.support.children import Child, spawn
from tests.support.cli_walk import shell_blocks
from tests.support.command import Said, environment, verbworker

TIMEOUT = 120.0


def _ours() -> dict[str, str]:
    """Variables with which a shell finds the commands of the environment that the tests run in."""
    return environment(PATH=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))


@dataclass(frozen=True, slots=True)
class Project:
    """A folder, and the variables of the shell that stands in it."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=_ours)

    # ---- files ----

    def read(self, name: str) -> str:
        """The text of a file."""
        return (self.folder / name).read_text()

    def write(self, name: str, text: str) -> None:
        """Write a file, and the folders it lies in."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def change(self, name: str, old: str, new: str) -> None:
        """Put another text into the place of one that must be there."""
        text = self.read(name)
        assert old in text, f"{name} does not hold {old}"
        self.write(name, text.replace(old, new))

    def tree(self) -> dict[str, str]:
        """The hash of every file, except git's own."""
        files = (file for file in self.folder.rglob("*") if file.is_file() and ".git" not in file.parts)
        return {str(file.relative_to(self.folder)): sha256(file.read_bytes()).hexdigest() for file in files}

    def copy(self, folder: Path) -> "Project":
        """The same project in another folder."""
        shutil.copytree(self.folder, folder)
        return Project(folder, self.environment)

    # ---- commands ----

    def verify(self, *arguments: str, **settings: str) -> Said:
        """Run `verbworker verify` in it."""
        return verbworker("verify", *arguments, directory=self.folder, **settings)

    def scaffold(self, *arguments: str) -> Said:
        """Run `verbworker scaffold` in it."""
        return verbworker("scaffold", *arguments, directory=self.folder)

    def shell(self, *lines: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run lines as a shell would that stops at the first that fails."""
        return subprocess.run(
            ["bash", "-e", "-c", "\n".join(lines)],
            cwd=self.folder,
            env={**self.environment, **settings},
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )

    @contextmanager
    def running(self, *lines: str, log: str = "log", **settings: str) -> Iterator[Child]:
        """Run lines in the background; in the end they are told to stop, and must."""
        (self.folder / log).unlink(missing_ok=True)
        child = spawn(
            ["bash", "-e", "-c", "\n".join([*lines[:-1], f"exec {lines[-1]}"])],
            log=self.folder / log,
            environment={**self.environment, **settings},
            directory=self.folder,
            last_signal=signal.SIGTERM,
        )
        try:
            yield child
        finally:
            code = child.end(timeout=TIMEOUT)
        assert code == 0, self.read(log)

    def log(self) -> str:
        """What was said in the background."""
        return self.read("log")

    def wait_for(self, name: str, child: Child) -> None:
        """Return when a file is there that something in the background writes."""
        deadline = time.monotonic() + TIMEOUT
        while not (self.folder / name).exists():
            assert child.code() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def shell_blocks(self, readme: str = "README.md") -> list[list[str]]:
        """The commands that a README shows, block by block."""
        return shell_blocks(self.read(readme))

    # ---- git ----

    def git(self, *words: str) -> str:
        """Ask git something in this folder."""
        me = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", "-C", str(self.folder), *me, *words], capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.strip()

    def commit(self) -> None:
        """Keep everything as it is now in a git repository."""
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "as it is")
