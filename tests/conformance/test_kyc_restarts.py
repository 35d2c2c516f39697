"""A KYC case waits for days; what runs around it does not. Each part is taken away while cases wait."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.children import spawn
from tests.support.command import COMMAND, environment
from tests.support.kyc_provider import Provider
from tests.support.kyc_world import ROOT, TENANT, World
from tests.support.zeebe import Broker
from verbs.kyc.screening import URL
from verbworker.runbook.event import Kind, Status, Wait

pytestmark = pytest.mark.req("WAIT-08", "COR-01")

# An engine in the database dies with it, and the chaos floor kills that; here it is the broker that goes away.
on_the_broker = pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=pytest.mark.zeebe) for name in ("zeebe", "zeebe-rest")]
)

MANY = 50


def address_of(world: World) -> dict[str, str]:
    """Where the engine is, as an operator sets it."""
    if world.address.startswith("rest://"):
        return {"ZEEBE_TRANSPORT": "rest", "ZEEBE_REST_ADDRESS": world.address.replace("rest://", "http://")}
    return {"ZEEBE_ADDRESS": world.address}


@contextmanager
def worker_process(world: World, provider: Provider, log: Path, *, last: signal.Signals) -> Iterator[None]:
    """A worker as an operator runs it, ended by a signal."""
    given = {
        "VERBWORKER_ENGINE": world.settings.engine,
        "VERBWORKER_ENGINE_ID": world.settings.cluster(),
        "VERBWORKER_HTTP_PORT": "0",
        "VERBWORKER_POLL_WAIT": "1",
        # A kill may hit between the runbook's word and the engine's: what was held then comes again after this.
        "VERBWORKER_ENGINE_TIMEOUT": "8",
        "VERBWORKER_LEASE": "5",
        **address_of(world),
        URL: provider.url,
    }
    command = [str(COMMAND), "worker", "--app", "verbs:registry"]
    child = spawn(command, log=log, environment=environment(world.dsn, **given), directory=ROOT)
    try:
        yield
    finally:
        child.end(last)


@on_the_broker
async def test_an_engine_that_crashes_while_cases_wait_still_knows_them(world: World, site: Broker) -> None:
    async with world.working():
        for_papers, for_person = await world.ask("Papers GmbH"), await world.ask("Person GmbH")
        await world.send(for_person)
        await world.waiting(for_papers, Wait.EXTERNAL_SIGNAL)
        await world.waiting(for_person, Wait.HUMAN_GATE)
        await asyncio.to_thread(site.restart)
        await world.send(for_papers)
        for entry_id in (for_papers, for_person):
            await world.decide(entry_id)
        ended = [await world.ended(entry_id) for entry_id in (for_papers, for_person)]

    assert [entry.status for entry in ended] == [Status.COMPLETED] * 2
    for entry_id in (for_papers, for_person):
        assert len(await world.done(entry_id)) == 6


async def test_a_runtime_that_is_restarted_while_a_case_waits_goes_on(world: World) -> None:
    async with world.working():
        entry_id = await world.ask()
        await world.waiting(entry_id, Wait.EXTERNAL_SIGNAL)
    await world.send(entry_id)
    async with world.working():
        await world.waiting(entry_id, Wait.HUMAN_GATE)
    await world.gates.decide(entry_id, "approve", by="ada", tenant_id=TENANT)
    async with world.working():
        entry = await world.ended(entry_id)

    assert entry.status is Status.COMPLETED
    assert len(await world.done(entry_id)) == 6


async def test_a_runtime_that_is_killed_while_a_case_waits_is_replaced(
    world: World, provider: Provider, tmp_path: Path
) -> None:
    with worker_process(world, provider, tmp_path / "first.log", last=signal.SIGKILL):
        entry_id = await world.ask()
        await world.waiting(entry_id, Wait.EXTERNAL_SIGNAL)
    await world.send(entry_id)
    with worker_process(world, provider, tmp_path / "second.log", last=signal.SIGTERM):
        await world.decide(entry_id)
        entry = await world.ended(entry_id)

    assert entry.status is Status.COMPLETED
    assert len(await world.done(entry_id)) == 6


@on_the_broker
@pytest.mark.req("ADP-02", "REG-16")
async def test_cases_asked_for_while_the_engine_is_down_all_start_once(world: World, site: Broker) -> None:
    await asyncio.to_thread(site.kill)
    async with world.working():
        ids = [await world.ask(f"Customer {number}") for number in range(MANY)]
        await asyncio.to_thread(site.start)
        for entry_id in ids:
            await world.waiting(entry_id, Wait.EXTERNAL_SIGNAL)

    for entry_id in ids:
        kinds = await world.kinds(entry_id)
        assert kinds.count(Kind.STARTED.value) == 1
        assert (await world.done(entry_id)).count("kyc.create-case-record") == 1
    rows = await world.database.fetch("SELECT count(*) AS cases FROM kyc_case")
    assert rows[0]["cases"] == MANY
