"""A crowd of KYC cases, people who decide at random, and workers that die: every case ends as its people said."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from tests.chaos.workers import WorkerGroup
from tests.support.kyc_provider import serve
from tests.support.kyc_world import TENANT, World, opened_world
from tests.support.postgres import Template
from tests.support.zeebe import Broker
from verbs.kyc.screening import URL
from verbworker.errors import RequestConflict
from verbworker.runbook.event import Status, Wait
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.work.starts.cancel import Cancellation

pytestmark = pytest.mark.timeout(900)

WORKER = (str(Path(sys.executable).with_name("verbworker")), "worker", "--app", "verbs:registry")
SEED = int(os.environ.get("VERBWORKER_CHAOS_SEED", "20261116"))
_HIT = "Shell Nowhere Ltd"


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens to one case, and how it must end."""

    word: str
    ends: Status


PLANS = (
    Plan("approve", Status.COMPLETED),
    Plan("reject", Status.FAILED),
    Plan("cancel", Status.CANCELLED),
    Plan("hit", Status.FAILED),
)


@pytest.fixture
def address(request: pytest.FixtureRequest, engine: str) -> str:
    """Where the engine is; one in the database has no address of its own."""
    if engine == "embedded":
        return ""
    broker: Broker = request.getfixturevalue("cluster")
    return broker.address


async def live(world: World, plan: Plan, number: int, random: Random) -> tuple[UUID, Plan]:
    """One case from its first word to its end."""
    entry_id = await world.ask(_HIT if plan.word == "hit" else f"Customer {number}")
    if plan.word == "hit":
        await world.ended(entry_id)
        return entry_id, plan
    if random.random() < 0.5:
        await world.send(entry_id)  # before anybody waits for it
    else:
        await world.waiting(entry_id, Wait.EXTERNAL_SIGNAL)
        await world.send(entry_id)
    await world.waiting(entry_id, Wait.HUMAN_GATE)
    if plan.word == "cancel":
        await cancelling(world).cancel(entry_id, tenant_id=TENANT, by="ann", reason="not needed")
    else:
        await decide_twice(world, entry_id, plan.word)
    await world.ended(entry_id)
    return entry_id, plan


async def decide_twice(world: World, entry_id: UUID, word: str) -> None:
    """Two people with the same mind at the same moment: one of them is refused."""
    people = (
        world.gates.decide(entry_id, word, reason="seen the papers", by=by, tenant_id=TENANT) for by in ("ada", "bob")
    )
    said = await asyncio.gather(*people, return_exceptions=True)
    assert [type(answer) for answer in said].count(RequestConflict) == 1, said


def cancelling(world: World) -> Cancellation:
    cluster = world.settings.cluster()
    return Cancellation(world.database, Dispatches(world.database, engine_id=cluster, owner=UUID(int=1)))


async def strike(workers: WorkerGroup, random: Random, stop: asyncio.Event) -> int:
    """Kill a worker every few seconds and put another in its place, until told to stop."""
    kills = 0
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), random.uniform(2, 5))
        except TimeoutError:
            place = random.choice(workers.places)
            workers.kill(place)
            workers.start(place)
            kills += 1
    return kills


@pytest.mark.req("EVT-09", "EVT-16", "COR-10", "WAIT-08", "CMP-07")
@pytest.mark.parametrize("cases", [40, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("engine", ["embedded", pytest.param("zeebe", marks=pytest.mark.zeebe)])
async def test_every_case_ends_as_its_people_said_whoever_dies(
    chaos_template: Template, address: str, tmp_path: Path, unique: Callable[[str], str], engine: str, cases: int
) -> None:
    random = Random(SEED)
    plans = [random.choices(PLANS, weights=(5, 3, 2, 1))[0] for _ in range(cases)]
    with chaos_template.clone() as dsn, serve() as provider:
        provider.listed.add(_HIT)
        given = {"engine": engine, "engine_id": unique("crowd")}
        async with opened_world(dsn, address, provider, timeout=300, **given) as world:
            workers = WorkerGroup(3, environment(world, provider.url), tmp_path, WORKER)
            workers.start_all()
            stop = asyncio.Event()
            try:
                killing = asyncio.create_task(strike(workers, random, stop))
                lives = (live(world, plan, number, Random(SEED + number)) for number, plan in enumerate(plans))
                ended = await asyncio.gather(*lives)
                stop.set()
                kills = await killing
                found = await judge(world, ended)
            finally:
                workers.end_all()

    assert kills > 0
    assert found.wrong == []
    assert found.broken == {}
    assert (found.orphans, found.open_tokens, found.open_frames) == ([], 0, 0)
    assert found.cases == cases
    assert found.statuses == Counter(plan.ends for plan in plans)


@dataclass(frozen=True, slots=True)
class Found:
    """What is left when all have ended."""

    wrong: list[tuple[UUID, Plan, Status]]
    broken: dict[UUID, int]
    orphans: list[int]
    open_tokens: int
    open_frames: int
    cases: int
    statuses: Counter[Status]


async def judge(world: World, ended: list[tuple[UUID, Plan]]) -> Found:
    entries = [(await world.entry(entry_id), plan) for entry_id, plan in ended]
    keys = await world.database.fetch("SELECT instance_key FROM verbworker.workflow_instance")
    async with world.new_engine() as engine:
        # An instance that is just ending has its last listener job out; a worker completes it.
        for _ in range(300):
            orphans = [row["instance_key"] for row in keys if await engine.alive(row["instance_key"])]
            if not orphans:
                break
            await asyncio.sleep(0.2)
    return Found(
        wrong=[(entry.entry_id, plan, entry.status) for entry, plan in entries if entry.status is not plan.ends],
        broken=dict((await world.resources.runbook.verify(TENANT)).broken),
        orphans=orphans,
        open_tokens=await count(world, "verbworker.parked_token WHERE closed_at IS NULL"),
        open_frames=await count(world, "verbworker.job_frame WHERE state IN ('started', 'failed')"),
        cases=await count(world, "kyc_case"),
        statuses=Counter(entry.status for entry, _ in entries),
    )


async def count(world: World, where: str) -> int:
    row = await world.database.fetchrow(f"SELECT count(*) AS found FROM {where}")
    assert row is not None
    return int(row["found"])


def environment(world: World, provider: str) -> dict[str, str]:
    return {
        "VERBWORKER_DSN": world.dsn,
        "VERBWORKER_ENGINE": world.settings.engine,
        "VERBWORKER_ENGINE_ID": world.settings.cluster(),
        "VERBWORKER_POLL_WAIT": "1",
        "VERBWORKER_LEASE": "5",
        "VERBWORKER_ENGINE_TIMEOUT": "8",
        "VERBWORKER_GATE_TIMEOUT": "8",
        "ZEEBE_ADDRESS": world.address,
        URL: provider,
    }
