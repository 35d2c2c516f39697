"""A pytest plugin: `--engine` picks the engines a run is for; long forms run only where `-m` asks for them."""

import contextlib
import os

import pytest

from tests.support.engines import ENGINES, GATEWAYS, make_ready
from tests.support.errors import Broken, Unavailable

_MARKS = {"zeebe": pytest.mark.zeebe, "zeebe-8.8": pytest.mark.versions, "zeebe-8.9": pytest.mark.versions}


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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "gateway" in metafunc.fixturenames:
        # A module whose tests hold for other engines than Zeebe's names them.
        names = getattr(metafunc.module, "ON", GATEWAYS)
        params = [pytest.param(name, marks=_MARKS.get(name, ())) for name in names]
        # And one that would take long everywhere names those that belong to the long form.
        also = getattr(metafunc.module, "ALSO_ON", ())
        params += [pytest.param(name, marks=(_MARKS[name], pytest.mark.long)) for name in also]
        metafunc.parametrize("gateway", params, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = chosen_engines(config)
    wants_long = "long" in config.option.markexpr
    left_out = [
        item
        for item in items
        if _engine_of(item) not in (None, *chosen) or (not wants_long and item.get_closest_marker("long"))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session: pytest.Session) -> None:
    # Here and not in a fixture: a download must not count against a test's time limit.
    asked = {_engine_of(item) for item in session.items}
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


def _engine_of(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec is not None else {}
    named = params.get("gateway") or params.get("engine")
    if named in ENGINES:
        return str(named)
    needs_broker = item.get_closest_marker("zeebe") or "broker" in getattr(item, "fixturenames", ())
    return "zeebe" if needs_broker else None
