"""The KYC example in both forms: with a job for 8.6 and, as `verblint --fix` draws it, with a native task for 8.8 on.

The native form runs on the 8.8 and 8.9 engines with the test server's user-task calls, the other on the real broker.
"""

from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.support.engine_versions import VersionEngine
from tests.support.kyc_provider import Provider
from tests.support.kyc_world import TENANT, World, opened_world
from tests.support.zeebe import Broker
from verbworker.runbook.event import Status, Wait
from verbworker.work.starts.cancel import Cancellation

TASKS = "SELECT user_task_key FROM verbworker.parked_token WHERE kind = 'human_gate'"

Story = Callable[[World], Awaitable[tuple[Status, list[tuple[str, ...]]]]]

# What of an event differs from run to run, or from engine to engine.
_KEYS = ("verb", "gate", "decision", "reason", "by", "wait", "name", "result")


@pytest.fixture(scope="module", params=["8.8", "8.9"])
def version(request: pytest.FixtureRequest) -> Iterator[VersionEngine]:
    with VersionEngine(request.param) as engine:
        yield engine


async def approved(world: World) -> tuple[Status, list[tuple[str, ...]]]:
    return await _story(world, "approve")


async def rejected(world: World) -> tuple[Status, list[tuple[str, ...]]]:
    return await _story(world, "reject")


async def overdue(world: World) -> tuple[Status, list[tuple[str, ...]]]:
    return await _story(world, "approve", escalates=True)


async def cancelled(world: World) -> tuple[Status, list[tuple[str, ...]]]:
    entry_id = await world.ask()
    await world.send(entry_id)
    await world.waiting(entry_id, Wait.HUMAN_GATE)
    async with world.new_engine() as engine:
        cancelling = Cancellation(world.database, world.resources.dispatches, engine)
        await cancelling.cancel(entry_id, tenant_id=TENANT, by="ann", reason="the customer left")
    return (await world.ended(entry_id)).status, await _told(world, entry_id)


async def _story(world: World, decision: str, *, escalates: bool = False) -> tuple[Status, list[tuple[str, ...]]]:
    entry_id = await world.ask(**({"review-within": "PT1S"} if escalates else {}))
    await world.send(entry_id)
    await world.waiting(entry_id, Wait.HUMAN_GATE)
    if escalates:
        await world.step(entry_id, "kyc.escalate")
    await world.gates.claim(entry_id, "ada", TENANT)
    await world.decide(entry_id, decision)
    return (await world.ended(entry_id)).status, await _told(world, entry_id)


async def _told(world: World, entry_id: object) -> list[tuple[str, ...]]:
    """What the runbook tells, without keys and times; steps side by side have no order."""
    events = await world.events(entry_id)  # type: ignore[arg-type]  # the id of an entry
    told = [(event.kind.value, *(str(event.detail.get(key)) for key in _KEYS)) for event in events]
    gate = next(index for index, event in enumerate(events) if event.detail.get("gate"))
    return [*sorted(told[:gate]), *told[gate:]]


@pytest.mark.zeebe
@pytest.mark.req("WAIT-01", "WAIT-03", "X-42")
@pytest.mark.parametrize("story", [approved, rejected, overdue, cancelled], ids=lambda story: story.__name__)
async def test_both_forms_tell_the_same_story(
    dsn: str, provider: Provider, site: Broker, version: VersionEngine, story: Story
) -> None:
    async with opened_world(dsn, site.address, provider, engine="zeebe", profile="8.6") as world, world.working():
        as_job = await story(world)
    url = f"http://{version.rest_address}"
    async with (
        opened_world(dsn, version.address, provider, engine="zeebe", profile="8.10", rest_url=url) as world,
        world.working(),
    ):
        native = await story(world)
        tasks = await world.database.fetch(
            "SELECT user_task_key FROM verbworker.parked_token WHERE kind = 'human_gate'"
        )

    assert native == as_job
    assert sorted(row["user_task_key"] is None for row in tasks) == [False, True]
