"""A pytest plugin: `--engine` picks the engines a run is for."""

import pytest

from tests.support.engines import ENGINES, GATEWAYS


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
        params = [
            pytest.param(name, marks=pytest.mark.zeebe if name == "zeebe" else pytest.mark.versions)
            for name in GATEWAYS
        ]
        metafunc.parametrize("gateway", params, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = chosen_engines(config)
    left_out = [item for item in items if _engine_of(item) not in (None, *chosen)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _engine_of(item: pytest.Item) -> str | None:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    named = params.get("gateway") or params.get("engine")
    if named in ENGINES:
        return str(named)
    return "zeebe" if item.get_closest_marker("zeebe") else None
