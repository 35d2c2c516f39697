"""The pytest plugin in a project of its own: loaded by its entry point, once, and harmless where it is not used."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import environment
from tests.support.postgres import ForeignPostgres, Postgres

CONFTEST = """
import pytest
from verbworker import Registry


@pytest.fixture
def registry():
    return Registry()
"""
TESTS = """
import pytest


@pytest.mark.asyncio
async def test_it(kit, crash_point):
    assert await kit.database.fetchrow("SELECT 1") == (1,)
"""
PLAIN = """
import sys


def test_it():
    loaded = {"asyncpg", "pydantic", "grpc", "verbworker.contract.registry"} & sys.modules.keys()
    assert loaded == set()
"""
# As in an environment of somebody who has verbworker and pytest, but not the extra `test`.
BLOCKED = """
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pytest_asyncio":
            raise ModuleNotFoundError(name)


def found(name, find=__import__("importlib.util").util.find_spec):
    return None if name == "pytest_asyncio" else find(name)


__import__("importlib.util").util.find_spec = found
sys.meta_path.insert(0, Absent())
"""


def run_pytest(folder: Path, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        command, cwd=folder, env=environment(**settings), capture_output=True, text=True, check=False, timeout=240
    )


@pytest.mark.parametrize("named", ["", 'pytest_plugins = ["verbworker.testing.plugin"]\n'], ids=["found", "named"])
def test_fixtures_are_there_without_and_with_a_line_in_conftest(
    tmp_path: Path, postgres: Postgres | ForeignPostgres, named: str
) -> None:
    (tmp_path / "conftest.py").write_text(named + CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)

    done = run_pytest(tmp_path, VERBWORKER_TEST_DSN=postgres.dsn)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def test_a_project_that_uses_none_of_it_loads_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PLAIN)

    done = run_pytest(tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


def test_without_pytest_asyncio_a_test_fails_with_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    (tmp_path / "test_it.py").write_text("def test_it(kit):\n    pass\n\n\ndef test_plain():\n    pass\n")

    done = run_pytest(tmp_path, "-p", "no:asyncio", "-p", "no:anyio", PYTHONPATH=str(tmp_path))

    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "this fixture needs pytest-asyncio; run: pip install 'verbworker[test]'" in done.stdout
