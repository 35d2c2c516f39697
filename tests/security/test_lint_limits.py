"""The linter answers any model soon: what it costs grows with the model and not faster, and its answer has an end."""

import gc
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.security.worst_models import MODELS, attributes, lines
from verblint.bpmn.reader import Limits
from verblint.linter import lint
from verblint.settings import Project, Settings

pytestmark = pytest.mark.attack("XML")

_UNLIMITED = Project(settings=Settings(limits=Limits(attributes=1_000_000, findings=1_000_000)))
_SMALL, _LARGE = 1_000, 8_000
_MOST = 2.5  # times the cost, for twice the model


def cost(content: bytes) -> float:
    """The least CPU that a check takes; what else runs on the machine only adds to it.

    The collector of garbage is off meanwhile: what a turn of it costs depends on all that the run holds so far.
    """
    best = float("inf")
    gc.disable()
    try:
        for _ in range(3):
            gc.collect()
            began = time.process_time()
            lint(content, project=_UNLIMITED)
            best = min(best, time.process_time() - began)
    finally:
        gc.enable()
    return best


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_eight_times_the_model_costs_no_more_than_three_doublings_may(make: Callable[[int], bytes]) -> None:
    small, large = cost(make(_SMALL)), cost(make(_LARGE))

    assert large < (small + 0.005) * _MOST**3


def test_an_element_with_too_many_attributes_is_refused_at_its_place() -> None:
    (finding,) = lint(attributes(501)).findings

    assert (finding.code, finding.message) == ("HB004", "an element has more than 500 attributes")
    assert finding.line == 1
    assert {one.code for one in lint(attributes(499)).findings} == {"HB007"}


def test_of_many_findings_the_first_are_told_and_the_rest_is_counted() -> None:
    *told, last = lint(lines(3_000)).findings

    assert len(told) == 1_000
    assert (last.code, last.message) == ("HB004", "more than 1,000 findings: 2,001 are not shown")
    assert last.line >= told[-1].line


def test_the_limits_are_settings(tmp_path: Path) -> None:
    report = lint(lines(30), project=Project(settings=Settings(limits=Limits(findings=10))))

    assert len(report.findings) == 11
