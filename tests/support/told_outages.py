"""An outage that was told in the log, and whether its end was."""

import logging
from collections.abc import Callable

import pytest

from verbworker.background.outages import Outage


def told_outage(outage: Outage, caplog: pytest.LogCaptureFixture) -> Callable[[], bool]:
    """Tell an outage; what is returned says whether its end was told since."""
    caplog.set_level(logging.INFO)
    outage.forget()
    assert outage.tell(0.0) is not None
    return lambda: any(record.getMessage().endswith("answers again") for record in caplog.records)
