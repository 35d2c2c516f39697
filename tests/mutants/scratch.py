"""Copies of the project, in memory, in which a mutant is applied and its tests run; the working tree stays as it is."""

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.listed import ROOT, Mutant
from tests.support.children import fresh_directory, fresh_log, remove, spawn

_LONGEST = 240.0
# A mutant that cannot even be loaded shows nothing, nor does a test that a busy machine did not end in time.
_UNUSABLE = (
    "Failed: Timeout",
    "NameError",
    "UnboundLocalError",
    "ImportError",
    "ModuleNotFoundError",
    "SyntaxError",
    "IndentationError",
)


@dataclass(frozen=True, slots=True)
class Run:
    """How the tests of one run ended, by their names; what was printed explains the rest."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    output: str = ""


class Scratch:
    """One copy of the project: what git knows of the working tree, changes that are not committed included."""

    def __init__(self, dsn: str) -> None:
        self._place = fresh_directory("mutants")
        self._tree = self._place / "tree"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "VERBWORKER_"))},
            "PYTHONPATH": f"{self._tree}{os.pathsep}{self._tree / 'lint'}",
            "PYTHONDONTWRITEBYTECODE": "",
            "TMPDIR": str(self._place),
            "VERBWORKER_TEST_DSN": dsn,
        }

    def fill(self) -> None:
        """Copy and compile the project, and see that the copy is what a test there imports."""
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True).stdout.decode()
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (self._tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self._tree / name)
        # By contents and not by time: two changes of one second that are as long as each other differ too.
        compiling = [
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode",
            "checked-hash",
            "verbworker",
            "lint/verblint",
            "verbs",
        ]
        self._python(*compiling)
        files = self._python("-c", "import verbworker, verblint; print(verbworker.__file__, verblint.__file__)")
        if files.count(str(self._tree)) != 2:
            raise RuntimeError(f"tests in {self._tree} would import {files.strip()}")

    def try_mutant(self, mutant: Mutant) -> Run:
        """Run a mutant's tests with its change in place, and take the change back."""
        file = self._tree / mutant.file
        before = file.read_text()
        file.write_text(mutant.applied(before))
        try:
            return self.run(mutant.tests)
        finally:
            file.write_text(before)

    def run(self, tests: Sequence[str], workers: int = 1) -> Run:
        """Run some tests here, and nothing else; what they leave running is ended with them."""
        report, log = self._place / "report.xml", fresh_log("mutants")
        report.unlink(missing_ok=True)
        options = ["-q", "--full", "-p", "no:cacheprovider", "--tb=short", "--timeout=120", f"--junitxml={report}"]
        beside = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []
        command = [sys.executable, "-m", "pytest", *options, *beside, *tests]
        try:
            child = spawn(command, log=log, environment=self._environment, directory=self._tree)
            try:
                child.wait(_LONGEST * max(1, len(tests) // 20))
            except TimeoutError as error:
                return Run(unusable=[str(error)])
            finally:
                child.end()
            return _read(report, log.read_text(errors="replace"))
        finally:
            log.unlink(missing_ok=True)

    def marks(self, tests: Sequence[str]) -> dict[str, list[str]]:
        """The requirements that each of these tests, and each of its cases, is marked with."""
        self._python("-m", "pytest", "--collect-only", "-q", "--full", *tests, may_fail=True)
        found: dict[str, list[str]] = json.loads((self._tree / ".pytest_cache/v/verbworker/marks").read_text())
        return found

    def remove(self) -> None:
        """Remove the copy."""
        remove(self._place)

    def _python(self, *words: str, may_fail: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=self._tree, env=self._environment, capture_output=True, text=True
        )
        if done.returncode and not may_fail:
            raise RuntimeError(f"python {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout


def fits(name: str, test: str) -> bool:
    """Whether a node id is a test as a list names it, or one of its cases."""
    return name == test or name.startswith(f"{test}[")


def _read(report: Path, output: str) -> Run:
    run = Run(output=output)
    if not report.exists():
        run.unusable.append("pytest ended without a report")
        return run
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        failure = case.find("failure")
        if case.find("error") is not None or case.find("skipped") is not None:
            run.unusable.append(name)
        elif failure is None:
            run.passed.append(name)
        elif (failure.get("message") or "").startswith(_UNUSABLE):
            run.unusable.append(f"{name}: {failure.get('message')}")
        else:
            run.failed.append(name)
    return run
