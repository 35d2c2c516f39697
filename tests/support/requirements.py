"""The tie between tests and requirements: `req` marks checked, outcomes kept, and a table of what is proven.

As a pytest plugin it refuses unknown ids, and ids that nothing in the gate proves, and remembers how each test last
ended. Run as a module it collects the tests anew and prints the table: a requirement is proven when every test marked
with it passed. Tests of the full or the long form count once they have run, or where there are no others.
"""

import json
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

_ROOT = Path(__file__).parents[2]
_LIST = Path(__file__).parents[1] / "requirements.txt"
_OUTCOMES = "verbworker/outcomes"
_MARKS = "verbworker/marks"
_LATER = "verbworker/later"
_REFUSED = "refused"
# Ids that no test of the gate proves, and why.
ONLY_LATER: dict[str, str] = {}


def known_ids() -> list[str]:
    """Every requirement id, in the order of the list."""
    return _LIST.read_text().split()


class Recorder:
    """What a run learns about marked tests, written to pytest's cache at its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._marks: dict[str, list[str]] = {}
        self._outcomes: dict[str, str] = {}
        self._later: list[str] = []

    @pytest.hookimpl(tryfirst=True)  # before anything is left out
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        known = set(known_ids())
        for item in items:
            ids = [name for mark in item.iter_markers("req") for name in mark.args]
            unknown = [name for name in ids if name not in known]
            if unknown:
                self._refuse(f"{item.nodeid} is marked with an unknown requirement: {unknown[0]!r}")
            if ids:
                self._marks[item.nodeid] = ids
            if ids and (item.get_closest_marker("full") or item.get_closest_marker("long")):
                self._later.append(item.nodeid)
        missing = [name for name in only_later(self._marks, self._later) if name not in ONLY_LATER]
        if missing and self._is_whole():
            self._refuse(f"no test of the gate proves {', '.join(missing)}; see tests/full.txt")

    def _refuse(self, reason: str) -> NoReturn:
        # What a worker of pytest-xdist raises is seen by nobody: the one that started it must say it.
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_REFUSED] = reason
        raise pytest.UsageError(reason)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if reason := getattr(node, "workeroutput", {}).get(_REFUSED):
            pytest.exit(reason, returncode=pytest.ExitCode.USAGE_ERROR)

    def _is_whole(self) -> bool:
        option = self._config.option
        everything = [str(_ROOT / "tests")]
        return [str(Path(name).resolve()) for name in self._config.args] == everything and not option.ignore

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        cache = getattr(self._config, "cache", None)
        if cache is None or hasattr(self._config, "workerinput"):
            return
        if self._config.option.collectonly:
            cache.set(_MARKS, self._marks)
            cache.set(_LATER, self._later)
            return
        # Runs add up: one floor at a time still fills the table.
        cache.set(_OUTCOMES, {**cache.get(_OUTCOMES, {}), **self._outcomes})


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(config), "verbworker-requirements")


def proven(
    ids: Sequence[str],
    marks: Mapping[str, Sequence[str]],
    outcomes: Mapping[str, str],
    later: Collection[str] = (),
) -> dict[str, bool]:
    """Say of every id whether it has tests and all of them passed; one for `later` counts once it has run."""
    tests = _by_id(marks)
    return {name: _is_proven(tests.get(name, []), outcomes, set(later)) for name in ids}


def _is_proven(tests: Sequence[str], outcomes: Mapping[str, str], later: Collection[str]) -> bool:
    due = [test for test in tests if test not in later or test in outcomes] or tests
    return bool(due) and all(outcomes.get(test) == "passed" for test in due)


def only_later(marks: Mapping[str, Sequence[str]], later: Collection[str]) -> list[str]:
    """The ids whose every test is left to the full or the long form."""
    late = set(later)
    return sorted(name for name, tests in _by_id(marks).items() if late.issuperset(tests))


def _by_id(marks: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    tests: dict[str, list[str]] = defaultdict(list)
    for test, named in marks.items():
        for name in named:
            tests[name].append(test)
    return tests


def table(verdicts: Mapping[str, bool]) -> str:
    """One row a capability: how many are proven, and which are not."""
    capabilities: dict[str, list[str]] = defaultdict(list)
    for name in verdicts:
        capabilities[name.partition("-")[0]].append(name)
    lines = ["capability  proven  unproven"]
    for capability, names in capabilities.items():
        missing = [name.partition("-")[2] for name in names if not verdicts[name]]
        row = f"{capability:<10}  {len(names) - len(missing):>3}/{len(names):<3} {' '.join(missing)}"
        lines += textwrap.wrap(row, 110, subsequent_indent=" " * 20)
    lines.append(f"{'total':<10}  {sum(verdicts.values()):>3}/{len(verdicts)}")
    return "\n".join(lines)


def main() -> int:
    """Print the table; fail as pytest does when a mark names no requirement."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    collected = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
    if collected.returncode != 0:
        print((collected.stderr or collected.stdout).strip(), file=sys.stderr)
        return collected.returncode
    print(table(proven(known_ids(), _kept(_MARKS, {}), _kept(_OUTCOMES, {}), _kept(_LATER, []))))
    return 0


def _kept(name: str, nothing: Any) -> Any:
    file = _ROOT / ".pytest_cache" / "v" / name
    return json.loads(file.read_text()) if file.exists() else nothing


if __name__ == "__main__":
    sys.exit(main())
