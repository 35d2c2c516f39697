"""The short form of the fault run, in the gate: both engines, few entries, each kind of fault once.

`make faults` is the long form. A red run says what broke and where its evidence lies.
"""

import functools
from collections import Counter

import pytest

from tests.faults.__main__ import run_plan
from tests.faults.plan import short_plan
from tests.faults.run import Run, Verdict
from tests.faults.site import Site

pytestmark = pytest.mark.timeout(420)
_WORKERS = 3
# What the oracle must see: each statement breaks one promise in the record of a green run.
_BREAKAGES = {
    "doubled": "INSERT INTO parcel_effect SELECT * FROM parcel_effect WHERE step = 'parcel.ship' LIMIT 1",
    "lost": "DELETE FROM parcel_effect WHERE step = 'parcel.settle'",
    # How an entry ended is final, but for triggers that are off.
    "stuck": """
        DO $$ BEGIN
          PERFORM set_config('session_replication_role', 'replica', true);
          UPDATE verbworker.runbook_entry SET status = 'executing', ended_at = NULL
          WHERE entry_id = (SELECT entry_id FROM verbworker.runbook_entry WHERE status = 'completed' LIMIT 1);
        END $$""",
    "left": """
        INSERT INTO verbworker.job_delivery (engine_id, job_key, type, retries, owner, lease_until)
        VALUES ('faults', 1, 'parcel.ship', 3, gen_random_uuid(), now())""",
}


def test_nothing_is_lost_doubled_or_stuck_on_the_embedded_engine() -> None:
    seen: Counter[str] = Counter()

    async def break_promises(run: Run) -> None:
        for kind, statement in _BREAKAGES.items():
            await run.world.query(statement)
            seen[kind] = sum(one.kind == kind for one in await run.judge_now())

    plan = short_plan("embedded")
    make_site = functools.partial(Site, "embedded", workers=_WORKERS, seed=plan.seed)
    verdict, _ = run_plan(plan, make_site, afterwards=break_promises)

    assert verdict.is_green, _told(verdict)
    assert all(seen[kind] > 0 for kind in _BREAKAGES), f"the oracle is blind: {seen}"


@pytest.mark.zeebe
def test_nothing_is_lost_doubled_or_stuck_on_zeebe() -> None:
    plan = short_plan("zeebe")
    verdict, _ = run_plan(plan, functools.partial(Site, "zeebe", workers=_WORKERS, seed=plan.seed))

    assert verdict.is_green, _told(verdict)


def _told(verdict: Verdict) -> str:
    lines = [f"{one.kind}: {one.entry}: {one.text}" for one in verdict.findings]
    deaths = [f"death: {one.name} {one.reason}" for one in verdict.deaths]
    return "\n".join([*lines, *deaths, *verdict.notes, verdict.line()])
