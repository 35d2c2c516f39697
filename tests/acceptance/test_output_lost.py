"""Output that cannot be written, and pipes that their reader closes: the exit code and the one sentence, or none."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import environment

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
NEED_NO_DATABASE = (
    "verbworker --help",
    "verbworker --version",
    "verbworker runbook --help",
    "verbworker runbook list --help",
    "verbworker verbs list --app verbs:registry",
    "verbworker lint processes/kyc-open-case/kyc-open-case.bpmn --show-settings",
    "verbworker lint processes --statistics",
    "verblint --help",
    "verblint --version",
    "verblint check --help",
    "verblint check processes --statistics",
    "verblint check processes --show-settings",
    "verblint rules",
    "verblint rules --format json",
    "verblint explain HB203",
    "verblint draw processes/document-collect/process.bpmn",
)
NEED_A_DATABASE = (
    "verbworker runbook list",
    "verbworker runbook list --json",
    "verbworker incidents list",
    "verbworker db status",
    "verbworker gates list",
)
FULL = "the output cannot be written: No space left on device"
CLOSED = "the output cannot be written: Bad file descriptor"


def run(command: str, output: int, **settings: str) -> tuple[int, str]:
    """Run a command in this repository; its exit code and what it wrote to standard error."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=environment(**{"PYTHONUNBUFFERED": ""} | settings) | {"PATH": f"{BIN}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


def program(command: str) -> str:
    """The name that a command's sentences begin with."""
    first, second = command.split()[:2]
    return "verblint" if second == "lint" else first


def check_full(command: str, **settings: str) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        assert run(command, full, **settings) == (2, f"{program(command)}: {FULL}\n")
    finally:
        os.close(full)


def check_closed(command: str, **settings: str) -> None:
    assert run(f"{command} >&-", subprocess.DEVNULL, **settings) == (2, f"{program(command)}: {CLOSED}\n")


def check_pipe(command: str, **settings: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert run(command, writing, **settings) == (141, "")
    finally:
        os.close(writing)


@pytest.mark.parametrize("check", [check_full, check_closed, check_pipe])
@pytest.mark.parametrize("command", NEED_NO_DATABASE)
def test_a_command_without_a_database(command: str, check: Callable[..., None]) -> None:
    check(command)


@pytest.mark.parametrize("check", [check_full, check_closed, check_pipe])
@pytest.mark.parametrize("command", NEED_A_DATABASE)
def test_a_command_that_reads_the_database(command: str, check: Callable[..., None], dsn: str) -> None:
    check(command, VERBWORKER_DSN=dsn, VERBWORKER_ENGINE="embedded")


def test_a_closed_standard_error_loses_only_what_is_written_there() -> None:
    assert run("verbworker start nonsense --app verbs:registry 2>&-", subprocess.DEVNULL)[0] == 1
    assert run("verblint check missing.bpmn 2>&-", subprocess.DEVNULL)[0] == 2
    assert run("verblint check processes 2>&-", subprocess.DEVNULL)[0] == 0


def test_both_outputs_on_a_full_disk_are_2() -> None:
    for command in ("verbworker --version", "verblint --version", "verblint check missing.bpmn"):
        assert run(f"{command} >/dev/full 2>&1", subprocess.DEVNULL) == (2, "")


@pytest.mark.parametrize("command", ["verbworker --help", "verblint --help", "verblint rules"])
def test_unbuffered_output_is_treated_alike(command: str) -> None:
    check_full(command, PYTHONUNBUFFERED="1")
    check_pipe(command, PYTHONUNBUFFERED="1")
