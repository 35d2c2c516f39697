"""What is built is what runs: both wheels, installed outside the repository."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.databases import empty_database
from tests.support.postgres import ForeignPostgres, Postgres

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, by distribution."""
    folder = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(ROOT), str(ROOT / "lint")], check=True)
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def elsewhere(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has the wheels and nothing of this checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder, with_pip=False)
    target = next((folder / "lib").glob("python*")) / "site-packages"
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    return folder


def run(elsewhere: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # Dependencies come from this environment; our own two packages are here only by .pth, which PYTHONPATH ignores.
    borrowed = {"PYTHONPATH": sysconfig.get_paths()["purelib"], "PATH": os.environ["PATH"], **environment}
    command = [str(elsewhere / "bin/python"), "-m", *words]
    return subprocess.run(
        command, cwd=elsewhere, env=borrowed, capture_output=True, text=True, check=False, timeout=120
    )


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_carries_the_sql_and_no_example(wheels: dict[str, Path]) -> None:
    inside = names(wheels["verbworker"])

    shipped = {f"verbworker/_sql/{path.relative_to(ROOT / 'sql')}" for path in (ROOT / "sql").rglob("*.sql")}
    assert shipped <= set(inside)
    assert "verbworker/py.typed" in inside
    assert not [name for name in inside if name.startswith(("verbs/", "tests/", "processes/", "sql/"))]


def test_the_linters_wheel_is_typed_and_asks_for_two_packages(wheels: dict[str, Path]) -> None:
    inside = names(wheels["verbworker_lint"])
    with zipfile.ZipFile(wheels["verbworker_lint"]) as archive:
        metadata = archive.read(next(name for name in inside if name.endswith("METADATA"))).decode()

    asked = sorted(
        line.split(":")[1].split(">")[0].strip() for line in metadata.splitlines() if "Requires-Dist" in line
    )
    assert "verblint/py.typed" in inside
    assert asked == ["pyyaml", "rfc8785"]


def test_the_installed_command_migrates_a_database(elsewhere: Path, postgres: Postgres | ForeignPostgres) -> None:
    with empty_database(postgres.dsn) as dsn:
        done = run(elsewhere, "verbworker", "db", "migrate", VERBWORKER_DSN=dsn)
        status = run(elsewhere, "verbworker", "db", "status", VERBWORKER_DSN=dsn)

    assert (done.returncode, done.stderr) == (0, "")
    assert "up to date" in done.stdout
    assert status.returncode == 0


def test_the_installed_linter_runs(elsewhere: Path) -> None:
    model = ROOT / "processes" / "document-collect" / "process.bpmn"

    done = run(elsewhere, "verblint", "check", str(model))

    assert done.returncode == 0, done.stdout + done.stderr
