"""A pytest plugin that says which tests a run is for.

`--engine` picks engines. Long forms run only where `-m` asks for them. What tests/full.txt names gets the mark `full`
and is left out, unless `--full` or `-m` asks for it or the command line names its file.
"""

import contextlib
import gc
import os
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import ENGINES, GATEWAYS, make_ready
from tests.support.errors import Broken, Unavailable

_LIST = Path(__file__).parents[1] / "full.txt"
_MARKS = {
    "zeebe": pytest.mark.zeebe,
    "zeebe-rest": pytest.mark.zeebe,
    "zeebe-8.8": pytest.mark.versions,
    "zeebe-8.9": pytest.mark.versions,
}


def chosen_engines(config: pytest.Config) -> tuple[str, ...]:
    """The engines this run is for: those named by --engine, else all."""
    named: list[str] = config.getoption("engine")
    return tuple(name for name in ENGINES if not named or name in named)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine",
        action="append",
        default=[],
        choices=ENGINES,
        help="of the tests that need an engine, run those of this one; may be repeated",
    )
    parser.addoption("--full", action="store_true", help="run what tests/full.txt leaves out of the gate, too")


@cache
def full_patterns() -> tuple[str, ...]:
    """The lines of tests/full.txt: what `make full` runs and the gate does not."""
    lines = (line.partition("#")[0].strip() for line in _LIST.read_text().splitlines())
    return tuple(line for line in lines if line)


def is_full(test: str, patterns: Sequence[str] | None = None) -> bool:
    """Whether a test is one of those; the last pattern that fits decides, and one behind `!` keeps it in the gate."""
    verdict = False
    for pattern in _patterns_of(test.partition("::")[0]) if patterns is None else patterns:
        if fits(test, pattern.removeprefix("!")):
            verdict = not pattern.startswith("!")
    return verdict


def fits(test: str, pattern: str) -> bool:
    """Whether a pattern names a test: its file, its function or its full id; `*` stands for anything."""
    return re.match(f"tests/{_expression(pattern)}($|::|\\[)", test) is not None


@cache
def _patterns_of(file: str) -> tuple[str, ...]:
    """The patterns that can fit a test of this file: every test of a run is held to every pattern otherwise."""
    named = {pattern: pattern.removeprefix("!").partition("::")[0] for pattern in full_patterns()}
    return tuple(pattern for pattern, place in named.items() if "[" in place or fits(file, place))


@cache
def _expression(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", ".*")


class Left:
    """How many tests were left to `make full`; the workers of pytest-xdist tell the one that started them."""

    def __init__(self) -> None:
        self.count = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.count = max(self.count, getattr(node, "workeroutput", {}).get("left", 0))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left"] = self.count

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.count:
            terminalreporter.write_line(f"{self.count} tests are left to `make full`")


_LEFT = pytest.StashKey[Left]()


def pytest_configure(config: pytest.Config) -> None:
    left = config.stash[_LEFT] = Left()
    config.pluginmanager.register(left, "verbworker-left")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "gateway" in metafunc.fixturenames:
        # A module whose tests hold for other engines than Zeebe's names them.
        names = getattr(metafunc.module, "ON", GATEWAYS)
        params = [pytest.param(name, marks=_MARKS.get(name, ())) for name in names]
        # And one that would take long everywhere names those that belong to the long form.
        also = getattr(metafunc.module, "ALSO_ON", ())
        params += [pytest.param(name, marks=(_MARKS[name], pytest.mark.long)) for name in also]
        metafunc.parametrize("gateway", params, indirect=True)


@pytest.hookimpl(tryfirst=True)  # before `-m` and before the recorder of marks
def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("long") is None and is_full(item.nodeid):
        item.add_marker(pytest.mark.full)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = chosen_engines(config)
    wants_long = "long" in config.option.markexpr
    wants_full = config.option.full or "full" in config.option.markexpr
    named = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
    kept, left_out = [], []
    for item in items:
        if engine_of(item) not in (None, *chosen) or (not wants_long and item.get_closest_marker("long")):
            left_out.append(item)
        elif not wants_full and item.get_closest_marker("full") and item.path not in named:
            left_out.append(item)
            config.stash[_LEFT].count += 1
        else:
            kept.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    items[:] = in_order(kept)


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Chaos first, then files with many tests: nobody waits for them in the end. A file's own order stays."""
    counts = Counter(item.path for item in items)
    return sorted(items, key=lambda item: ("chaos" not in item.path.parts, -counts[item.path], item.path))


def pytest_collection_finish(session: pytest.Session) -> None:
    # Ten thousand tests live until the end: the collector of garbage need not look at them again and again.
    gc.freeze()
    # Here and not in a fixture: a download must not count against a test's time limit.
    asked = {engine_of(item) for item in session.items}
    if "zeebe-rest" in asked:
        asked.add("zeebe")
    needed = [name for name in GATEWAYS if name in asked]
    if os.environ.get("VERBWORKER_TEST_ZEEBE") and "zeebe" in needed:
        needed.remove("zeebe")
    if not needed or session.config.option.collectonly:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"engines: {', '.join(needed)} (the first run here fetches them through Maven)")
    for name in needed:
        with contextlib.suppress(Unavailable, Broken):  # the fixture says it again, as a skip or a failure
            make_ready(name)


def engine_of(item: pytest.Item) -> str | None:
    """The engine a test runs on; None for one that needs none, or whose engine is a part of its floor."""
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec is not None else {}
    named = params.get("gateway") or params.get("engine")
    if named in ENGINES:
        return str(named)
    needs_broker = item.get_closest_marker("zeebe") or "broker" in getattr(item, "fixturenames", ())
    return "zeebe" if needs_broker else None
