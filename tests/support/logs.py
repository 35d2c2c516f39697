"""A pytest plugin: a failed test shows the end of its servers' logs, and where the rest is."""

from collections.abc import Generator
from pathlib import Path

import pytest

_LINES = 20


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            log = getattr(value, "log", None)
            if isinstance(log, Path) and log.exists():
                report.sections.append((f"log of {name}: {log}", tail(log)))
    return report


def tail(log: Path) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LINES:])
