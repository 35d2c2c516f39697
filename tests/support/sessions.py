"""`verbworker dev` as a person runs it, in a copy of the example, and what a command left running."""

import os
import shutil
import signal
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.children import Child, fresh_directory, remove, spawn
from tests.support.command import COMMAND, Said, environment, verbworker
from tests.support.shop import wait_until

ROOT = Path(__file__).parents[2]
APP = ("--app", "verbs:registry", "--processes", "processes", "--sql", "verbs/document.sql")
MARK = "TEST_MARK"


@dataclass(frozen=True, slots=True)
class Trail:
    """What tells the processes of one command from all others: a variable they inherit, and a folder they live in."""

    mark: str
    folder: Path

    def left(self) -> list[str]:
        """The processes that still run, by what they are."""
        return [found for process in psutil.process_iter() if (found := self._shown(process))]

    def pid_of(self, words: str) -> int:
        """The one process whose command has these words."""
        (pid,) = [process.pid for process in psutil.process_iter() if words in self._shown(process)]
        return int(pid)

    def _shown(self, process: psutil.Process) -> str:
        try:
            # Postgres writes its state where its variables were, so it is known by its folder.
            is_ours = process.environ().get(MARK) == self.mark or process.cwd().startswith(str(self.folder))
            return " ".join(process.cmdline()) if is_ours else ""
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            return ""


@contextmanager
def trail() -> Iterator[Trail]:
    """A folder in memory that every user may pass through, as Postgres does when root starts it."""
    folder = fresh_directory("trail")
    folder.chmod(0o711)
    try:
        yield Trail(uuid.uuid4().hex, folder)
    finally:
        remove(folder)


def copied_example(folder: Path) -> Path:
    """The example application in a folder of its own, with the one model that needs nobody outside."""
    shutil.copytree(ROOT / "verbs", folder / "verbs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "processes" / "document-collect", folder / "processes" / "document-collect")
    (folder / "pyproject.toml").write_text('[tool.verblint]\nverbs = "verbs"\nengine = "8.6"\n')
    return folder


class DevSession:
    """A running session."""

    def __init__(self, child: Child, log: Path, folder: Path, data: Path) -> None:
        self._child = child
        self._log = log
        self._folder = folder
        self._data = data

    @property
    def said(self) -> str:
        """Everything on its terminal so far."""
        return self._log.read_text()

    def until(self, words: str, *, times: int = 1) -> None:
        """Wait until it has said something so often."""
        wait_until(lambda: self.said.count(words) >= times or self._child.code() is not None, f"never said {words!r}")
        assert self.said.count(words) >= times, self.said

    def save(self, name: str, old: str, new: str) -> None:
        """Change a file of the application as an editor does: another file takes its place."""
        place = self._folder / name
        text = place.read_text()
        assert old in text
        fresh = place.with_name(f".{place.name}.new")
        fresh.write_text(text.replace(old, new))
        fresh.rename(place)

    def run(self, *words: str) -> Said:
        """Another command in another terminal, after `. env`; it stands in the checkout, where nothing is broken."""
        return verbworker(*words, directory=ROOT, **self.settings())

    def settings(self) -> dict[str, str]:
        """What the session wrote for other commands."""
        lines = (self._data / "env").read_text().splitlines()
        return dict(line.removeprefix("export ").replace("'", "").split("=", 1) for line in lines)

    def collect(self, client: str) -> str:
        """Have a document asked for, and say how it ended."""
        said = self.run(
            "start", f'(document.collect :client "{client}" :document "passport")', *APP[:2], "--wait", "60"
        )
        assert said.code == 0, said.err
        return said.out.partition(":")[0]

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send the signal and return the exit code."""
        os.kill(self._child.pid, number)
        return self._child.wait(60)


@contextmanager
def dev_session(
    folder: Path, found: Trail, *options: str, app: Sequence[str] = APP, **settings: str
) -> Iterator[DevSession]:
    """A session in a folder, ended in any case."""
    data = found.folder / "data"
    log = folder / f"dev-{uuid.uuid4().hex[:6]}.log"
    child = spawn(
        [COMMAND, "dev", *app, "--data", str(data), *options],
        log=log,
        environment=environment(**{MARK: found.mark, **settings}),
        directory=folder,
    )
    try:
        yield DevSession(child, log, folder, data)
    finally:
        child.end(signal.SIGINT, timeout=60)
