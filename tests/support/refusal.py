"""A pytest plugin: a test that meets `Unavailable` is skipped with the reason, and fails where CI is true."""

import os
from collections.abc import Generator
from typing import NoReturn

import pytest

from tests.support.errors import Unavailable


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    return (yield from _refusing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    return (yield from _refusing())


def refuse(reason: Unavailable) -> NoReturn:
    """Skip with the reason; in CI a missing part is a failure."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"CI needs every real part: {reason}", pytrace=False)
    pytest.skip(str(reason))


def _refusing() -> Generator[None]:
    try:
        return (yield)
    except Unavailable as reason:
        refuse(reason)
