"""The twelve invariants of frames, held by the shipped SQL under random hands; and proof that the hands find a hole."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.frame_machine import FrameMachine
from tests.support.frame_world import World
from verbworker.stores import sql
from verbworker.stores.database import connect

EXAMPLES = int(os.environ.get("VERBWORKER_FRAME_EXAMPLES", "60"))
STEPS = int(os.environ.get("VERBWORKER_FRAME_STEPS", "40"))
MUTANT_EXAMPLES = 400  # most are found within ten


@pytest.fixture
def machine(dsn: str) -> Iterator[type[FrameMachine]]:
    """The machine in a world of its own."""
    world = World(dsn)
    yield type("FrameMachine", (FrameMachine,), {"world": world})
    world.close()


def bounded(examples: int, *phases: Phase, fixed: bool = False) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=fixed,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.req("JOB-01", "JOB-02", "JOB-03", "JOB-05", "JOB-11", "JOB-13", "JOB-14", "X-06", "X-08", "X-23", "X-41")
def test_the_invariants_hold_whatever_happens_in_whatever_order(machine: type[FrameMachine]) -> None:
    run_state_machine_as_test(machine, settings=bounded(EXAMPLES, Phase.generate, Phase.shrink))


FENCE = "AND owner = $3 AND epoch = $4 AND state = 'started'"
NO_FENCE = "AND $3::uuid IS NOT NULL AND $4::bigint > 0 AND state = 'started'"
ITEM_FENCE = "AND frame.owner = $2 AND frame.epoch = item.epoch AND"
MUTANTS = {
    "a claim ignores a live lease": ("push", "AND frame.lease_until < clock_timestamp()", ""),
    "a claim ignores a backoff": ("push", " AND frame.next_retry_at <= clock_timestamp()", ""),
    "a claim ignores who was activated later": ("push", "AND excluded.activated_ms > frame.activated_ms", ""),
    "a claim ignores the most runs": ("push", "AND frame.runs < frame.max_runs", ""),
    "a claim ignores what must not be repeated": ("push", "frame.on_unknown <> 'hold'", "true"),
    "a claim ignores the window": ("push", "AND frame.keyed_at > clock_timestamp() - frame.idempotency_window", ""),
    "a claim ignores the grace after a report": ("push", "+ interval '5 seconds'", ""),
    "a claim ignores the tenant": ("push", "AND frame.tenant_id = excluded.tenant_id", ""),
    "a claim keeps the epoch": ("push", "epoch = frame.epoch + 1", "epoch = frame.epoch"),
    "a claim ignores the archive": ("push", "WHERE NOT $22::boolean OR", "WHERE $22::boolean OR"),
    "a heartbeat ignores the fence": ("heartbeat", ITEM_FENCE, "AND $2::uuid IS NOT NULL AND"),
    "a verdict ignores the fence": ("pop_completed", ITEM_FENCE, "AND $2::uuid IS NOT NULL AND"),
    "a verdict ignores the head": (
        "pop_completed",
        "AND head.hash = ($6::bytea[])[ready.place]",
        "AND $6::bytea[] IS NOT NULL",
    ),
    "a business verdict ignores the fence": ("pop_thrown", FENCE, NO_FENCE),
    "a failure ignores the fence": ("pop_failed", FENCE, NO_FENCE),
    "a failure costs no retry": ("pop_failed", "retries_left = retries_left - 1,", ""),
    "giving back ignores the fence": ("pop_yielded", FENCE, NO_FENCE),
    "giving back costs a run": ("pop_yielded", "runs = runs - 1,", ""),
    "an incident ignores the fence": ("pop_incident", FENCE, NO_FENCE),
    "a hold keeps the epoch": ("hold", "epoch = epoch + 1", "epoch = epoch"),
    "a report ignores the epoch": ("reported", "AND epoch = $3", "AND $3::bigint IS NOT NULL"),
    "a release forgets the key's age": (
        "release",
        "CASE WHEN $6 IS NULL THEN keyed_at ELSE",
        "CASE WHEN false THEN keyed_at ELSE",
    ),
    "the relay forgets a verdict": ("relay", "AND acked_at IS NULL", "AND acked_at IS NULL AND relay_at IS NULL"),
    "the sweep takes a live lease": (
        "leases.take",
        "AND lease_until < clock_timestamp() - $4::interval",
        "AND $4::interval IS NOT NULL",
    ),
    "the sweep keeps the epoch": ("leases.take", "SET epoch = frame.epoch + 1, owner", "SET owner"),
    "the sweep repeats a report that was heard": ("leases.take", "'incident' AND reported_at IS NULL", "'incident'"),
    "a swept run costs a retry": (
        "leases.run_again",
        "retries_left = greatest(frame.retries_left, 1)",
        "retries_left = greatest(frame.retries_left - 1, 1)",
    ),
    "a swept hold counts as told": ("leases.hold", "reported_at = NULL", "reported_at = clock_timestamp()"),
    "a frame is closed under any epoch": ("frames.close", "AND epoch = $3", "AND $3::bigint IS NOT NULL"),
    "a closed frame is claimed and stays acknowledged": ("push", "acked_at = NULL,", ""),
    "a closed frame runs though it must not": ("push", "frame.acked_at IS NULL\n", "true\n"),
}


FUNCTION_MUTANTS = {
    "one verdict ignores the fence": ("hold_claim", "AND frame.owner = boot AND frame.epoch = claim", ""),
    "one verdict ignores the head": ("hold_claim", "AND head.hash = base", ""),
    "the archive takes what nobody acknowledged": (
        "archive_frames",
        "WHERE frame.acked_at < clock_timestamp() - after",
        "WHERE after IS NOT NULL",
    ),
}


@pytest.mark.parametrize("mutant", FUNCTION_MUTANTS.values(), ids=FUNCTION_MUTANTS)
async def test_a_hole_in_a_function_is_found(dsn: str, mutant: tuple[str, str, str]) -> None:
    await break_function(dsn, *mutant)
    world = await asyncio.to_thread(World, dsn)
    machine = type("FrameMachine", (FrameMachine,), {"world": world})

    def search() -> None:
        run_state_machine_as_test(machine, settings=bounded(MUTANT_EXAMPLES, Phase.generate, fixed=True))

    with pytest.raises(Exception) as caught:  # noqa: PT011  # an assertion of the machine, or the database's own belt
        await asyncio.to_thread(search)
    await asyncio.to_thread(world.close)
    assert isinstance(caught.value, AssertionError) or type(caught.value).__module__ == "verbworker.errors"


async def break_function(dsn: str, name: str, old: str, new: str) -> None:
    """Take a condition out of a function of the schema."""
    async with connect(dsn) as connection:
        text = await connection.fetchval(
            "SELECT pg_get_functiondef(oid) FROM pg_proc"
            " WHERE proname = $1 AND pronamespace = 'verbworker'::regnamespace",
            name,
        )
        assert old in text, "this mutant no longer changes anything"
        await connection.execute(text.replace(old, new))


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_hole_in_the_sql_is_found(
    machine: type[FrameMachine], monkeypatch: pytest.MonkeyPatch, mutant: tuple[str, str, str]
) -> None:
    place, old, new = mutant
    store, _, name = place.rpartition(".")
    queries = sql.queries(store or "frames")
    assert old in queries[name], "this mutant no longer changes anything"
    monkeypatch.setitem(queries, name, queries[name].replace(old, new))

    with pytest.raises(Exception) as caught:  # noqa: PT011  # an assertion of the machine, or the database's own belt
        run_state_machine_as_test(machine, settings=bounded(MUTANT_EXAMPLES, Phase.generate, fixed=True))
    assert isinstance(caught.value, AssertionError) or type(caught.value).__module__ == "verbworker.errors"
