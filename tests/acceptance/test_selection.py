"""`--engine`: which tests a run is for."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_TESTS = """
import pytest

def test_plain(): pass

@pytest.mark.zeebe
def test_marked(): pass

def test_with_broker(broker): pass

def test_with_gateway(gateway): pass
"""


@pytest.mark.req("TST-15")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--engine", "inline"], ["test_plain"]),
        (["--engine", "zeebe-8.8"], ["test_plain", "test_with_gateway[zeebe-8.8]"]),
        (
            ["--engine", "inline", "--engine", "zeebe"],
            ["test_plain", "test_marked", "test_with_broker", "test_with_gateway[zeebe]"],
        ),
        (
            [],
            [
                "test_plain",
                "test_marked",
                "test_with_broker",
                "test_with_gateway[zeebe]",
                "test_with_gateway[zeebe-8.8]",
                "test_with_gateway[zeebe-8.9]",
            ],
        ),
    ],
    ids=["inline", "zeebe-8.8", "two", "all"],
)
def test_a_run_leaves_out_the_tests_of_engines_it_is_not_for(
    tmp_path: Path, options: list[str], expected: list[str]
) -> None:
    test = tmp_path / "test_engines.py"
    test.write_text(_TESTS)
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "pyproject.toml"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", *plugins, *options, str(test)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    collected = [line.rpartition("::")[2] for line in run.stdout.splitlines() if "::" in line]

    assert collected == expected
