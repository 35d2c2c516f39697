"""The linter alone: a fresh environment with ./lint and nothing of the runtime runs the whole lint floor."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("pytest", "pytest-asyncio", "pytest-timeout", "hypothesis", "xmlschema")
RUNTIME = ("grpc", "pyzeebe", "asyncpg", "pydantic", "verbworker", "typer", "orjson")


def called(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command from the root of the repository, without the settings of this run's Python."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the linter and what runs tests."""
    folder = tmp_path_factory.mktemp("alone")
    made = called(sys.executable, "-m", "venv", folder)
    assert made.returncode == 0, made.stderr
    python = folder / "bin" / "python"
    installed = called(python, "-m", "pip", "install", "--quiet", "./lint", *TOOLS)
    assert installed.returncode == 0, installed.stderr
    return python


@pytest.mark.timeout(900)
def test_the_linter_brings_nothing_of_the_runtime(python: Path) -> None:
    listed = called(python, "-m", "pip", "list", "--format", "freeze").stdout.lower()
    # Isolated, because the repository itself is the current folder.
    program = f"from importlib.util import find_spec; print([name for name in {RUNTIME} if find_spec(name)])"
    found = called(python, "-I", "-c", program)

    assert "verbworker-lint==" in listed
    assert found.stdout == "[]\n"


@pytest.mark.timeout(900)
def test_the_installed_command_checks_models(python: Path) -> None:
    def code(name: str) -> int:
        path = f"tests/lint/rules/bare-flag/{name}"
        options = ("--verbs", "tests/lint/contracts", "--max-warnings", "99")
        return called(python.with_name("verblint"), "check", path, *options).returncode

    assert called(python.with_name("verblint"), "--version").stdout.startswith("verblint 0.")
    assert [code("valid.bpmn"), code("invalid.bpmn"), code("*.dmn")] == [0, 1, 2]


@pytest.mark.req("TST-09")
@pytest.mark.timeout(1500)
def test_the_whole_lint_floor_passes_there(python: Path) -> None:
    # What only takes long has run beside; here it counts that nothing of the runtime is needed.
    left_out = ("condition_oracle", "robustness", "reader_robustness", "formats", "sarif")
    ignored = [f"--ignore=tests/lint/test_{name}.py" for name in left_out]
    done = called(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/lint", *ignored)

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
