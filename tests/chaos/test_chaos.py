"""Everything at once on real processes: workers, database and broker die, and every effect happens once."""

import pytest

from tests.chaos.nemesis import Plan
from tests.chaos.run import Outcome, chaos
from tests.chaos.site import ENGINE_TIMEOUT, Site
from tests.chaos.verbs import WORK
from tests.chaos.workers import NAIVE
from tests.support.postgres import Postgres
from tests.support.zeebe import Broker

pytestmark = [pytest.mark.zeebe, pytest.mark.timeout(900)]

# A frozen worker must lose both leases, and the engine looks for overdue jobs once a second.
_FREEZE = (ENGINE_TIMEOUT + 1.5, ENGINE_TIMEOUT + 4.0)
_SHORT = Plan(pause=(1.0, 3.0), freeze=_FREEZE, postgres_crashes=(0.3,), broker_crashes=(0.55,), until=0.7, least=3)
_LONG = Plan(
    pause=(0.8, 2.5),
    freeze=_FREEZE,
    postgres_crashes=(0.2, 0.5, 0.75),
    broker_crashes=(0.35, 0.65),
    until=0.9,
    least=10,
    longest=900,
)


def _assert_everything_happened_once(outcome: Outcome) -> None:
    found = outcome.findings
    assert found.lost == 0
    assert found.booked_twice == 0
    assert found.provider.most_keys == 1
    assert found.provider.effects == len(found.provider.keys)
    assert found.completed == found.acknowledged == found.frames
    assert found.spent_retries == 0
    assert found.differing == 0


def _assert_every_fault_hit(outcome: Outcome) -> None:
    kinds = ("kill", "freeze", "cut", "postgres", "broker")
    assert all(outcome.faults[kind] > 0 for kind in kinds), outcome.faults
    assert outcome.findings.takeovers > 0
    assert outcome.findings.fenced > 0


def _assert_nobody_died_unasked(outcome: Outcome) -> None:
    # A worker that starts while the database is down says so and ends; whoever runs it starts it again.
    unasked = [death for death in outcome.deaths if not death.is_refused_start]
    assert unasked == []
    assert outcome.worked > 0, "nobody was seen at work, so nobody could be seen to die there"
    assert outcome.bugs == []


@pytest.mark.req("JOB-01", "JOB-04", "JOB-06", "JOB-13", "JOB-18", "X-08", "TST-05", "EVO-02", "M-04", "M-05")
@pytest.mark.parametrize(
    ("plan", "instances", "seconds"),
    [
        pytest.param(_SHORT, 700, 24, id="short"),
        pytest.param(_LONG, 2000, 150, id="long", marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
async def test_whatever_dies_every_effect_happens_once_and_nothing_is_lost(
    site: Site, server: Postgres, cluster: Broker, plan: Plan, instances: int, seconds: float
) -> None:
    outcome = await chaos(site, server, cluster, plan, instances=instances, seconds=seconds)

    _assert_everything_happened_once(outcome)
    _assert_every_fault_hit(outcome)
    _assert_nobody_died_unasked(outcome)


@pytest.mark.parametrize(
    ("plan", "instances", "seconds"),
    [
        pytest.param(Plan(pause=(0.5, 1.5), freeze=_FREEZE, least=3), 200, 15, id="short"),
        pytest.param(_LONG, 600, 60, id="long", marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
async def test_the_same_faults_make_a_worker_without_frames_repeat_effects(
    site: Site, server: Postgres, cluster: Broker, plan: Plan, instances: int, seconds: float
) -> None:
    # The effect comes first, so whoever dies at work after it leaves one that will be repeated.
    slowly = {WORK: "0.2:0.8"}

    # What it repeats is the question here; nothing promises that it also comes to an end with everything.
    outcome = await chaos(
        site, server, cluster, plan, instances=instances, seconds=seconds, command=NAIVE, share=0.9, **slowly
    )

    assert outcome.findings.booked_twice > 0
    assert outcome.findings.provider.most_keys > 1
