"""The front door: what `import verbworker` gives, and nothing else."""

import subprocess
import sys
from types import ModuleType

import pytest

import verbworker


@pytest.mark.req("REG-12")
def test_the_front_door_is_sorted_and_exact() -> None:
    for name in verbworker.__all__:
        getattr(verbworker, name)
    public = [
        name
        for name, value in vars(verbworker).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    ]

    assert verbworker.__all__ == sorted(public)


def test_every_name_of_the_front_door_says_what_it_is() -> None:
    silent = [name for name in verbworker.__all__ if not getattr(verbworker, name).__doc__]

    assert silent == []


def test_the_front_door_opens_without_an_engine_or_a_database() -> None:
    heavy = ("grpc", "pyzeebe", "asyncpg", "httpx", "uvicorn", "opentelemetry", "typer")
    look = f"import sys, verbworker; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60)

    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_name_that_is_not_at_the_front_door_is_none() -> None:
    with pytest.raises(AttributeError, match="module 'verbworker' has no attribute 'Frames'"):
        _ = verbworker.Frames  # type: ignore[attr-defined]
