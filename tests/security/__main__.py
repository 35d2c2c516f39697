"""Replays every attack of this folder and prints, by group, how many were tried and how many held.

An attack is one case of a test: `@pytest.mark.attack("HTTP")` names its group. Exits 1 when one did not hold.
"""

import sys
from collections import Counter
from pathlib import Path

import pytest

GROUPS = ("HTTP", "auth", "payload", "SQL role", "record", "XML", "YAML", "CLI", "generated code")
OTHER = "other"  # attacks without a mark


class Tally:
    """Counts the attacks of a run."""

    def __init__(self) -> None:
        self.groups: dict[str, str] = {}
        self.tried: Counter[str] = Counter()
        self.open: dict[str, list[str]] = {}
        self.skipped: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note the group of each attack."""
        for item in items:
            mark = item.get_closest_marker("attack")
            self.groups[item.nodeid] = OTHER if mark is None else str(mark.args[0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count an attack once, whatever part of it failed."""
        group = self.groups[report.nodeid]
        if report.skipped:
            self.skipped[group] += 1
        elif report.when == "call":
            self.tried[group] += 1
        if report.failed:
            names = self.open.setdefault(group, [])
            if report.nodeid not in names:
                names.append(report.nodeid)
            if report.when == "setup":
                self.tried[group] += 1

    def lines(self) -> list[str]:
        """Return the table, with a line for every attack that did not hold."""
        groups = [*GROUPS, *sorted({*self.groups.values()} - {*GROUPS})]
        rows = [_row("group", "tried", "held", "skipped")]
        for group in groups:
            held = self.tried[group] - len(self.open.get(group, ()))
            rows.append(_row(group, self.tried[group], held, self.skipped[group] or ""))
        tried, failed = self.tried.total(), sum(map(len, self.open.values()))
        rows.append(_row("total", tried, tried - failed, self.skipped.total() or ""))
        return rows + [f"did not hold: {name}" for names in self.open.values() for name in names]


def _row(name: str, *cells: object) -> str:
    return f"{name:<16}" + "".join(f"{cell!s:>8}" for cell in cells).rstrip()


def main(arguments: list[str]) -> int:
    """Run the attacks; the arguments are pytest's."""
    tally = Tally()
    here = str(Path(__file__).parent)
    code = pytest.main(["--full", "-q", "-p", "no:cacheprovider", *(arguments or []), here], plugins=[tally])
    print("\n".join(["", *tally.lines()]))
    return 0 if code == pytest.ExitCode.OK and tally.tried.total() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
