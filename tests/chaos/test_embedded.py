"""The embedded engine under fire: four processes on one database, and nothing is lost, doubled or left over."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.chaos import verbs
from tests.chaos.load import HARNESS
from tests.chaos.mixed import LETTER, STEPS, VERB, model, registry
from tests.chaos.nemesis import Nemesis, Plan
from tests.chaos.provider import Provider
from tests.chaos.run import SEED, WORKERS
from tests.chaos.site import ENGINE_TIMEOUT, LEASE
from tests.chaos.stuck import rest, story
from tests.chaos.workers import WORKER, WorkerGroup
from tests.support.databases import execute, plain
from tests.support.postgres import Postgres, Template
from verbworker.app.settings import Settings
from verbworker.client.resources import Resources, open_resources
from verbworker.contract.message import Message
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Resource
from verbworker.errors import StoreError
from verbworker.model.weave import weave
from verbworker.runbook.event import Kind
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.messages.ingress import Ingress
from verbworker.work.starts.router import Caller

pytestmark = pytest.mark.timeout(1800)

TENANT = "chaos"
_FREEZE = (ENGINE_TIMEOUT + 1.5, ENGINE_TIMEOUT + 3.0)
_SHORT = Plan(pause=(0.8, 2.0), freeze=_FREEZE, postgres_crashes=(0.1,), until=0.6, longest=120)
_LONG = Plan(pause=(0.8, 2.5), freeze=_FREEZE, postgres_crashes=(0.2, 0.5, 0.75), until=0.9, least=8, longest=600)
_LEFT = """
SELECT
  (SELECT count(*) FROM verbworker_engine.instance) AS instances,
  (SELECT count(*) FROM verbworker_engine.job) AS jobs,
  (SELECT count(*) FROM verbworker_engine.timer) AS timers,
  (SELECT count(*) FROM verbworker_engine.subscription) AS subscriptions,
  (SELECT count(*) FROM verbworker_engine.incident) AS incidents
"""
_PROGRESS = """
SELECT
  (SELECT count(*) FROM verbworker.runbook_entry WHERE status = 'completed') AS completed,
  (SELECT count(*) FROM verbworker_engine.ended_instance) AS ended,
  (SELECT coalesce(sum(deliveries), 0) FROM verbworker.job_frame) AS deliveries,
  (SELECT count(*) FROM verbworker.job_frame WHERE acked_at IS NULL) AS open_frames
"""

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Street:
    """Where the cases of one run come from."""

    resources: Resources
    ingress: Ingress
    dsn: str
    calm: asyncio.Lock = field(default_factory=asyncio.Lock)
    entries: dict[int, UUID] = field(default_factory=dict)
    ended: int = 0

    async def ask(self, count: int, seconds: float, dice: random.Random) -> None:
        """Ask for so many cases, each with its letter: some letters at once, some when the case surely waits."""
        late: list[int] = []
        for number in range(count):
            await self._asked(number)
            if dice.random() < 0.5:
                await self._write(number)
            else:
                late.append(number)
            await asyncio.sleep(seconds / count)
        for number in late:
            await self._write(number)

    async def _asked(self, number: int) -> None:
        caller = Caller(TENANT, "ann", request_key=f"case-{number}")
        entry = await _insist(lambda: self.resources.router.invoke(VERB, {"number": number}, caller=caller))
        self.entries[number] = entry.entry_id

    async def _write(self, number: int) -> None:
        entry_id = self.entries[number]
        letter = Message(
            message_name=LETTER, message_id=f"m-{entry_id}", correlation_key=str(number), tenant_id=TENANT,
            entry_id=entry_id, payload={},
        )  # fmt: skip
        await _insist(lambda: self.ingress.take(letter, sent_by="tests"))

    async def progress(self) -> tuple[object, ...]:
        """How far the run is."""
        row = await _insist(self._look)
        self.ended = row[1]
        return row

    async def _look(self) -> tuple[int, ...]:
        async with plain(self.dsn) as connection:
            return tuple(await connection.fetchrow(_PROGRESS))

    async def watch(self) -> None:
        """Keep knowing how many have ended, until cancelled."""
        while True:
            await self.progress()
            await asyncio.sleep(0.3)


async def _insist(act: Callable[[], Awaitable[Answer]]) -> Answer:
    """Do it again until the database is there; everything done here may be done twice."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await act()
            except (StoreError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                await asyncio.sleep(0.1)


@asynccontextmanager
async def street(dsn: str) -> AsyncIterator[Street]:
    """A database with the model deployed, and a way to ask for cases."""
    named = f"{dsn}?application_name={HARNESS}"
    await execute(named, verbs.LEDGER)
    settings = Settings.model_validate({"dsn": named, "engine": "embedded", "tenant": TENANT})
    async with Database(named, size=2) as database, open_resources(settings, registry) as resources:
        woven = weave(model(), registry)
        async with EmbeddedEngine(Database(named, size=4), engine_id=settings.cluster(), run_timers=False) as engine:
            (deployed,) = await engine.deploy([Resource("mixed.bpmn", woven.content)])
        deployments = Deployments(database, engine_id=settings.cluster())
        digest = sha256(model()).digest()
        await deployments.record(deployed, woven, resource="mixed.bpmn", authored_sha256=digest, by="tests")
        inbox = Inbox(database, engine_id=settings.cluster(), owner=uuid4())
        yield Street(resources, Ingress(inbox, DeadLetters(database)), named)


def environment(dsn: str, provider: Provider) -> dict[str, str]:
    return {
        verbs.PROVIDER: provider.address,
        verbs.WORK: "0.1:0.5",
        "VERBWORKER_DSN": dsn,
        "VERBWORKER_ENGINE": "embedded",
        "VERBWORKER_TENANT": TENANT,
        "VERBWORKER_LEASE": str(LEASE),
        "VERBWORKER_ENGINE_TIMEOUT": str(ENGINE_TIMEOUT),
        "VERBWORKER_POLL_WAIT": "2",
        "VERBWORKER_LOG_FORMAT": "text",
        "VERBWORKER_VERB_CONNECTIONS": "6",
    }


@pytest.mark.req("TOK-06", "TOK-12", "TOK-17", "TOK-19", "EMC-14", "X-17", "X-18", "X-19", "X-23", "EVO-16", "EVO-17")
@pytest.mark.req("EVO-18", "EVO-20", "EVO-22")
@pytest.mark.parametrize(
    ("plan", "cases", "seconds"),
    [pytest.param(_SHORT, 100, 12, id="short"), pytest.param(_LONG, 1000, 100, id="long", marks=pytest.mark.long)],
)
async def test_four_processes_die_and_every_case_ends_with_each_effect_once(
    chaos_template: Template, server: Postgres, tmp_path: Path, plan: Plan, cases: int, seconds: float
) -> None:
    seed = int(os.environ.get(SEED, random.randrange(1_000_000)))
    with chaos_template.clone() as dsn, Provider(tmp_path) as provider:
        await provider.ready()
        workers = WorkerGroup(
            WORKERS, environment(dsn, provider), tmp_path, (*WORKER[:-1], "tests.chaos.mixed:registry")
        )
        async with street(dsn) as town, asyncio.TaskGroup() as tasks:
            nemesis = Nemesis(plan, workers, town.calm, server, None, town.dsn, seed)
            try:
                workers.start_all()
                watching = [tasks.create_task(workers.supervise()), tasks.create_task(town.watch())]
                asking = tasks.create_task(town.ask(cases, seconds, random.Random(seed)))
                await nemesis.run(lambda: town.ended / cases)
                await asking
                await rest(
                    town.progress,
                    lambda now: now[:2] == (cases, cases) and now[3] == 0,
                    lambda: story(workers, town.dsn, nemesis.log),
                    timeout=90,
                )
                for task in watching:
                    task.cancel()
            finally:
                workers.end_all()
            found = await judge(town)
    print(found, dict(nemesis.counts), provider.seen(), *workers.deaths, sep="\n")

    assert found.steps == Counter({(step, 1): cases for step in STEPS})
    assert (found.booked, found.left, found.statuses) == ({2: cases}, (0, 0, 0, 0, 0), {"completed": cases})
    assert found.broken == {}
    seen = provider.seen()
    assert (seen.most_keys, seen.effects, len(seen.keys)) == (1, cases, cases)
    assert all(nemesis.counts[kind] > 0 for kind in ("kill", "freeze", "cut", "postgres"))
    assert [death for death in workers.deaths if not death.is_refused_start] == []
    assert workers.worked() > 0, "nobody was seen at work, so nobody could be seen to die there"
    assert workers.bugs() == []


@dataclass(frozen=True, slots=True)
class Found:
    """What there is when everything has come to rest."""

    steps: Counter[tuple[str, int]]  # how many cases did a step how often
    booked: dict[int, int]  # how many cases have how many rows in the ledger
    left: tuple[int, ...]
    statuses: dict[str, int]
    broken: dict[UUID, int]


async def judge(town: Street) -> Found:
    steps: Counter[tuple[str, int]] = Counter()
    for entry_id in town.entries.values():
        events = await town.resources.runbook.events(entry_id)
        done = Counter(event.detail["verb"] for event in events if event.kind is Kind.STEP_COMPLETED)
        steps.update((verb.partition(".")[2], times) for verb, times in done.items())
    async with plain(town.dsn) as connection:
        ledger = await connection.fetch("SELECT count(*) AS rows FROM ledger GROUP BY number")
        ended = await connection.fetch("SELECT status, count(*) FROM verbworker_engine.ended_instance GROUP BY status")
        left = await connection.fetchrow(_LEFT)
    broken = dict((await town.resources.runbook.verify(TENANT)).broken)
    return Found(steps, dict(Counter(row["rows"] for row in ledger)), tuple(left), dict(map(tuple, ended)), broken)
