"""The installed command line as a person meets it: a process, its words and its exit code."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


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


def verbworker(*arguments: str, directory: Path, dsn: str | None = None) -> Said:
    """Run `verbworker` from the environment the tests run in; nothing of the caller's settings reaches it."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("VERBWORKER_", "PG"))}
    if dsn is not None:
        environment["VERBWORKER_DSN"] = dsn
    done = subprocess.run(
        [Path(sys.executable).with_name("verbworker"), *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Said(done.returncode, done.stdout, done.stderr)
