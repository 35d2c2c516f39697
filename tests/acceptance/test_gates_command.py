"""`verbworker gates` as a reviewer meets it: what waits, whose it is, one decision, and clear words for the second."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.command import Said, verbworker
from tests.support.gate_cases import TENANT, GateSetup, job_of, memory, opened, review_registry
from verblint.contracts.contract import Gate
from verbworker.stores.database import Database
from verbworker.testing.memory import MemoryEngine
from verbworker.work.gates.decide import GateRelay


@pytest.fixture
def engine() -> MemoryEngine:
    return memory()


@pytest.fixture
async def setup(dsn: str, engine: MemoryEngine) -> AsyncIterator[GateSetup]:
    gate = Gate("review", "task_1", ("approve", "reject"), "reviewer")
    async with Database(dsn, size=4) as database, opened(database, engine, review_registry(gate=gate)) as setup:
        yield setup


class Reviewer:
    """Somebody at a terminal."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._dsn = dsn
        self._folder = folder

    def say(self, *words: str, tenant: str = TENANT) -> Said:
        return verbworker("gates", *words, directory=self._folder, dsn=self._dsn, VERBWORKER_TENANT=tenant)


@pytest.fixture
def reviewer(dsn: str, tmp_path: Path) -> Reviewer:
    return Reviewer(dsn, tmp_path)


@pytest.mark.req("WAIT-02", "COR-08", "PRX-33")
async def test_a_reviewer_sees_what_waits_and_decides(
    setup: GateSetup, reviewer: Reviewer, engine: MemoryEngine
) -> None:
    gate = await setup.parked()
    (listed,) = json.loads(reviewer.say("list", "--json").out)["gates"]
    said = reviewer.say("decide", str(gate.entry_id), "approve", "--reason", "all papers", "--by", "anna")
    await setup.relay.drain()

    assert (listed["token_id"], listed["gate"], listed["takes"]) == (str(gate.token_id), "review", "approve, reject")
    assert (listed["reason"], listed["state"]) == ("Awaiting reviewer", "open")
    assert (said.code, said.err) == (0, "")
    assert (
        said.out == f"anna decided approve at review of entry {gate.entry_id}; a worker will report it to the engine\n"
    )
    assert engine.jobs[job_of(gate)].completions == 1
    assert len(reviewer.say("list").out.splitlines()) == 1  # the header
    (kept,) = json.loads(reviewer.say("list", "--all", "--json").out)["gates"]
    assert (kept["verdict"]["decision"], kept["verdict"]["reason"]) == ("approve", "all papers")
    assert kept["state"] == "anna decided approve"


@pytest.mark.req("PRX-34", "X-42")
async def test_the_second_decision_hears_who_decided_and_when(setup: GateSetup, reviewer: Reviewer) -> None:
    gate = await setup.parked()
    decided = await setup.decide(gate)
    said = reviewer.say("decide", str(gate.token_id), "reject", "--by", "bob")

    assert decided.verdict is not None
    assert said.code == 1
    assert said.sentence() == (
        f"verbworker: review of entry {gate.entry_id} is decided: anna said 'approve' at"
        f" {decided.verdict.at:%Y-%m-%d %H:%M:%S} UTC"
    )


@pytest.mark.req("WAIT-02")
async def test_a_claimed_gate_is_decided_by_nobody_else(setup: GateSetup, reviewer: Reviewer) -> None:
    gate = await setup.parked()
    taken = reviewer.say("claim", str(gate.entry_id), "--by", "anna")
    refused = reviewer.say("decide", str(gate.entry_id), "approve", "--by", "bob")
    given_back = reviewer.say("release", str(gate.entry_id), "--by", "carl")
    decided = reviewer.say("decide", str(gate.entry_id), "approve", "--by", "bob")

    assert (taken.code, taken.out) == (0, f"anna claimed review of entry {gate.entry_id}\n")
    assert (refused.code, "is claimed by anna since" in refused.sentence()) == (1, True)
    assert (given_back.code, given_back.out) == (0, f"review of entry {gate.entry_id} is released\n")
    assert decided.code == 0


async def test_a_word_the_gate_does_not_take_is_refused(setup: GateSetup, reviewer: Reviewer) -> None:
    gate = await setup.parked()
    said = reviewer.say("decide", str(gate.entry_id), "aprove")

    assert (said.code, said.sentence()) == (1, "verbworker: review takes approve, reject, and not 'aprove'")


async def test_another_tenants_gate_is_not_there(setup: GateSetup, reviewer: Reviewer) -> None:
    gate = await setup.parked()
    said = reviewer.say("decide", str(gate.token_id), "approve", tenant="other")

    assert (said.code, said.sentence()) == (1, f"verbworker: the tenant other has no gate at {gate.token_id}")
    assert len(reviewer.say("list", tenant="other").out.splitlines()) == 1  # the header


@pytest.mark.req("WAIT-05")
@pytest.mark.parametrize(("is_gone", "code", "words"), [(False, 0, "the case continues"), (True, 1, "came too late")])
async def test_a_reviewer_may_wait_until_the_engine_knows(
    setup: GateSetup, reviewer: Reviewer, engine: MemoryEngine, *, is_gone: bool, code: int, words: str
) -> None:
    gate = await setup.parked()
    if is_gone:
        await engine.cancel(engine.jobs[job_of(gate)].job.process_instance_key)
    relay = asyncio.ensure_future(GateRelay(setup.database, engine, every=0.05).service.run())
    said = await asyncio.to_thread(reviewer.say, "decide", str(gate.entry_id), "approve", "--wait", "30")
    relay.cancel()

    assert said.code == code
    assert words in said.out + said.err


def test_a_gate_that_nobody_knows_is_not_found(reviewer: Reviewer) -> None:
    said = reviewer.say("decide", str(uuid4()), "approve")

    assert said.code == 1
    assert said.sentence().startswith("verbworker: the tenant tests has no gate at")


def test_without_a_database_nothing_can_be_decided(tmp_path: Path) -> None:
    said = verbworker("gates", "list", directory=tmp_path)

    assert (said.code, said.sentence()) == (
        2,
        "verbworker: no database is set; set VERBWORKER_DSN or pass --dsn",
    )
