"""Replays every attack of this folder and prints, by group, how many were tried and how many held.

An attack is one case of a test: `@pytest.mark.attack("HTTP")` names its group. Then the attacks of the report by their
ids (`report.py`). Exits 1 when one did not hold, or an id has no test. With `--fuzz` the long attacks run instead.
"""

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.security import report

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

    def of_report(self) -> tuple[list[str], bool]:
        """Return a line for each attack of the report, and whether all of them held."""
        failed = {name for names in self.open.values() for name in names}
        rows, all_held = [f"{'report':<8}{'item':<6}{'tried':>6}{'held':>6}  attack"], True
        for number, attack in report.REPORT.items():
            tests = [name for name in self.groups if report.replays(name, attack)]
            held = sum(name not in failed for name in tests)
            all_held = all_held and 0 < len(tests) == held
            note = "" if tests else ": NO TEST"
            rows.append(f"{number:<8}{attack.item:<6}{len(tests):>6}{held:>6}  {attack.words}{note}")
        return rows, all_held

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
    if "--fuzz" in arguments:
        # Not above: it imports the product, whose pytest plugin pytest refuses to find imported already.
        from tests.security.fuzz import ingress, models

        rest = [word for word in arguments if word != "--fuzz"]
        return max(models.main(), ingress.main(rest))
    tally = Tally()
    here = Path(__file__).parent
    places = [str(here), *(str(path) for place in report.ELSEWHERE for path in sorted(here.parent.glob(place)))]
    code = pytest.main(["--full", "-q", "-p", "no:cacheprovider", *(arguments or []), *places], plugins=[tally])
    rows, all_held = tally.of_report()
    print("\n".join(["", *rows, "", *tally.lines()]))
    return 0 if code == pytest.ExitCode.OK and tally.tried.total() and all_held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
