"""What a test does when a real part cannot run here."""

import os
from typing import NoReturn

import pytest

from tests.support.errors import Unavailable


def refuse(reason: Unavailable) -> NoReturn:
    """Skip with the reason; in CI a missing part is a failure."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"CI needs every real part: {reason}", pytrace=False)
    pytest.skip(str(reason))
