"""The simulator: schedules by seed keep every promise, and each bug that is put in is found."""

import os
from typing import Any, cast

import pytest

from tests.simulator import digests
from tests.simulator.expected import EXPECTED, unexplained
from tests.simulator.faults import ALL
from tests.simulator.mutants import MUTANTS, applied
from tests.simulator.runner import play, shrink
from tests.simulator.shapes import REGISTRY
from tests.simulator.worker import LEFT_OUT, Boot
from tests.simulator.world import Options, World
from verbworker.app.services import build_services
from verbworker.app.settings import Settings
from verbworker.job.trace import UNTRACED
from verbworker.work.jobs.executor import Databases

SEEDS = int(os.environ.get("VERBWORKER_SIMULATED", "1000"))
MOST = 10_000  # seeds within which every bug is found


@pytest.mark.timeout(900)  # half a minute of work, and the machine may have much else to do
def test_schedules_keep_every_promise() -> None:
    options = Options(ALL)
    for seed in range(SEEDS):
        outcome = play(seed, options)
        if unexplained(outcome):
            small = shrink(seed, options, outcome.names)
            first = [f"seed {seed}", *map(str, outcome.violations), "shrunk:"]  # shrunk to none: not played alike again
            pytest.fail("\n".join([*first, *map(str, small.faults), *map(str, small.violations), *small.trace]))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_known_bug_is_still_there(name: str) -> None:
    known = EXPECTED[name]
    options = Options(known.faults)

    def is_found(seed: int) -> bool:
        outcome = play(seed, options)
        return any(known.explains(outcome, violation) for violation in outcome.names)

    found = next((seed for seed in (known.seed, *range(MOST)) if is_found(seed)), None)

    assert found is not None, f"{known.sentence}: not found any more; take it off tests/simulator/expected.py"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_that_is_put_in_is_found(name: str) -> None:
    mutant = MUTANTS[name]
    options = Options(mutant.faults)
    # Where it was found last comes first.
    seeds = (mutant.seed, *range(MOST))
    with applied(name):
        found = next((seed for seed in seeds if mutant.is_seen_in(play(seed, options))), None)

    assert found is not None, mutant.sentence
    assert not mutant.is_seen_in(play(found, options)), f"seed {found} fails without the bug, too"


def test_a_schedule_is_the_same_whenever_it_is_run() -> None:
    options = Options(ALL, is_traced=True)
    for seed in range(10):
        first, second = play(seed, options), play(seed, options)

        assert first.trace == second.trace


def test_a_failure_is_shrunk_to_the_faults_that_it_needs() -> None:
    mutant = MUTANTS["pops after commit"]
    options = Options(mutant.faults)
    with applied("pops after commit"):
        outcome = play(mutant.seed, options)
        small = shrink(mutant.seed, options, outcome.names)

    assert small.names & outcome.names
    assert len(small.faults) <= 3


def test_every_double_was_written_for_the_sql_that_ships() -> None:
    now, then = digests.current(), digests.known()
    changed = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))

    assert not changed, (
        "look at their doubles in tests/simulator/statements, then run python -m tests.simulator.digests"
    )


def test_every_service_of_a_worker_is_simulated_or_left_out_on_purpose() -> None:
    world = World(0, Options(frozenset()))
    database = cast(Any, world.database(world.entrance))
    owner, engine, pools = world.uuid(), world.engine_for(world.entrance), Databases(database, database)
    simulated = {
        service.name for service in Boot(world.loop, world.entrance, database, database, engine, owner).services
    }
    services = build_services(
        Settings(), REGISTRY, engine, pools, cast(Any, None), owner=owner, ring=None, tracer=UNTRACED
    )
    real = {service.name for service in services.services}

    assert {name for name in real - simulated if not name.startswith("undo")} <= LEFT_OUT
