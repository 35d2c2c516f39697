"""The tie between tests and requirements: `req` marks checked, outcomes kept, and a table of what is proven.

As a pytest plugin it refuses unknown ids, rules of the sources without a marked test, and ids that nothing in the gate
proves, and remembers how each test last ended. Run as a module it collects the tests anew and prints two tables: of
each requirement the engines on which its tests passed, and of each capability how many are proven, the rules of the
sources apart from the lists beside them. A requirement is proven when every test marked with it passed. Tests of the
full or the long form count once they have run, or where there are no others.
"""

import json
import subprocess
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support.selection import engine_of

_ROOT = Path(__file__).parents[2]
_LIST = Path(__file__).parents[1] / "requirements.txt"
_OUTCOMES = "verbworker/outcomes"
_MARKS = "verbworker/marks"
_LATER = "verbworker/later"
_ENGINES = "verbworker/engines"
_REFUSED = "refused"
# Contradictions of the sources, what their later history taught, and measurements: no rules of theirs.
BESIDE = ("X", "EVO", "M")
VERSIONS = {
    "inline": "inline",
    "embedded": "embedded",
    "zeebe": "8.6.0",
    "zeebe-rest": "8.6.0",
    "zeebe-8.8": "8.8.21",
    "zeebe-8.9": "8.9.0-rc2",
}
"""What the tables call each engine of the tests; a test holds the versions to those that are started."""
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
        self._engines: dict[str, str] = {}

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
            if ids and (engine := engine_behind(item)):
                self._engines[item.nodeid] = engine
            if ids and (item.get_closest_marker("full") or item.get_closest_marker("long")):
                self._later.append(item.nodeid)
        if not self._is_whole():
            return
        if bare := unmarked(self._marks):
            self._refuse(f"no test is marked with {', '.join(bare)}")
        missing = [name for name in only_later(self._marks, self._later) if name not in ONLY_LATER]
        if missing:
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
            cache.set(_ENGINES, self._engines)
            return
        # Runs add up: one floor at a time still fills the table.
        cache.set(_OUTCOMES, {**cache.get(_OUTCOMES, {}), **self._outcomes})


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(config), "verbworker-requirements")


def engine_behind(item: pytest.Item) -> str | None:
    """The engine whose behaviour a test shows: the one it is run on, or the one its file is named for."""
    named = next((name for name in ("embedded", "inline") if item.path.stem.startswith(f"test_{name}")), None)
    return engine_of(item) or named


def engines_proving(
    marks: Mapping[str, Sequence[str]], outcomes: Mapping[str, str], engines: Mapping[str, str]
) -> dict[str, Counter[str]]:
    """Of each id, on which engines how many of its tests passed; those that need no engine are under `none`."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, tests in _by_id(marks).items():
        passed = (test for test in tests if outcomes.get(test) == "passed")
        found[name].update(VERSIONS.get(engines.get(test, ""), "none") for test in passed)
    return found


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


def unmarked(marks: Mapping[str, Sequence[str]]) -> list[str]:
    """The rules of the sources that no test is marked with."""
    marked = _by_id(marks)
    return [name for name in known_ids() if name not in marked and name.partition("-")[0] not in BESIDE]


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


def rule_table(verdicts: Mapping[str, bool], engines: Mapping[str, Counter[str]]) -> str:
    """One row a requirement: whether it is proven, and how many tests passed on each engine and on none."""
    columns = ["none", *dict.fromkeys(VERSIONS.values())]
    lines = [f"{'rule':<8}{'':<10}" + "".join(f"{name:>10}" for name in columns)]
    for name, is_proven in verdicts.items():
        counts = engines.get(name, Counter())
        row = f"{name:<8}{'proven' if is_proven else 'unproven':<10}"
        lines.append((row + "".join(f"{counts[column] or '':>10}" for column in columns)).rstrip())
    return "\n".join(lines)


def table(verdicts: Mapping[str, bool]) -> str:
    """One row a capability: how many are proven, and which are not; first the rules of the sources, then the rest."""
    capabilities: dict[str, list[str]] = defaultdict(list)
    for name in verdicts:
        capabilities[name.partition("-")[0]].append(name)
    sources = {name: found for name, found in capabilities.items() if name not in BESIDE}
    beside = {name: found for name, found in capabilities.items() if name in BESIDE}
    lines = ["capability  proven  unproven"]
    for title, part in (("sources", sources), ("beside", beside)):
        for capability, names in part.items():
            lines += _row(capability, names, verdicts)
        every = [name for names in part.values() for name in names]
        lines.append(f"{title:<10}  {sum(verdicts[name] for name in every):>3}/{len(every)}")
    return "\n".join(lines)


def _row(capability: str, names: Sequence[str], verdicts: Mapping[str, bool]) -> list[str]:
    missing = [name.partition("-")[2] for name in names if not verdicts[name]]
    row = f"{capability:<10}  {len(names) - len(missing):>3}/{len(names):<3} {' '.join(missing)}"
    return textwrap.wrap(row, 110, subsequent_indent=" " * 20)


def main() -> int:
    """Print the tables; fail as pytest does when a mark names no requirement."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    collected = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
    if collected.returncode != 0:
        print((collected.stderr or collected.stdout).strip(), file=sys.stderr)
        return collected.returncode
    marks, outcomes = _kept(_MARKS, {}), _kept(_OUTCOMES, {})
    verdicts = proven(known_ids(), marks, outcomes, _kept(_LATER, []))
    print(rule_table(verdicts, engines_proving(marks, outcomes, _kept(_ENGINES, {}))))
    print(f"\n{table(verdicts)}")
    return 0


def _kept(name: str, nothing: Any) -> Any:
    file = _ROOT / ".pytest_cache" / "v" / name
    return json.loads(file.read_text()) if file.exists() else nothing


if __name__ == "__main__":
    sys.exit(main())
