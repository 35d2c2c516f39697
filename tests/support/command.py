"""The installed command line as a person meets it: a process, its words and its exit code."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.logins import as_owner


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    def sentence(self) -> str:
        """What went wrong, given that it was told in one line and without a traceback."""
        assert "Traceback" not in self.err + self.out, self.err
        lines = self.err.splitlines()
        assert len(lines) == 1, f"not one line: {self.err!r}"
        return lines[0]


COMMAND = Path(sys.executable).with_name("verbworker")
_SETTINGS = ("VERBWORKER_", "PG", "ZEEBE_", "CAMUNDA_", "OTEL_")


def verbworker(*arguments: str, directory: Path, dsn: str | None = None, **settings: str) -> Said:
    """Run `verbworker` from the environment the tests run in; nothing of the caller's settings reaches it."""
    done = subprocess.run(
        [COMMAND, *arguments],
        cwd=directory,
        env=environment(dsn if dsn is None or not _is_owners(arguments) else as_owner(dsn), **settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def _is_owners(arguments: tuple[str, ...]) -> bool:
    """Whether people give this command the owner's address: no role may do what it does."""
    return arguments[:2] in (("db", "migrate"), ("db", "roles")) or arguments[:1] == ("erase",)


def environment(dsn: str | None = None, **settings: str) -> dict[str, str]:
    """The variables of a command: the caller's without settings, then those given here by their full names."""
    bare = {name: text for name, text in os.environ.items() if not name.startswith(_SETTINGS)}
    return {**bare, **({} if dsn is None else {"VERBWORKER_DSN": dsn}), **settings}
