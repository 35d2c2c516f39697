"""Negative controls: without a guard the same run goes red. Long, so `pytest tests/faults -m long` runs them."""

import functools

import pytest

from tests.faults.__main__ import run_plan
from tests.faults.guards import GUARDS
from tests.faults.plan import make_plan
from tests.faults.site import Site

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]
_WORKERS = 4
_ENTRIES = 160


@pytest.mark.parametrize("guard", sorted(GUARDS))
def test_without_a_guard_a_run_goes_red(guard: str) -> None:
    control = GUARDS[guard]
    lines = []
    for seed in range(7, 7 + control.seeds):
        plan = make_plan(control.engine, _ENTRIES, seed, workers=_WORKERS, kinds=control.faults)
        make_site = functools.partial(Site, plan.engine, workers=_WORKERS, seed=plan.seed, guard=guard)
        verdict, _ = run_plan(plan, make_site)
        if control.breaks & {one.kind for one in verdict.findings}:
            return
        lines.append(verdict.line())

    pytest.fail("every run is green without it:\n" + "\n".join(lines))


def test_verbs_that_write_outside_of_their_transaction_show_effects_twice() -> None:
    plan = make_plan("embedded", _ENTRIES, 7, workers=_WORKERS, kinds=frozenset({"kill", "kill at start"}))
    make_site = functools.partial(Site, "embedded", workers=_WORKERS, seed=plan.seed, naive=True)
    verdict, _ = run_plan(plan, make_site)

    assert any(one.kind == "doubled" for one in verdict.findings), verdict.line()
