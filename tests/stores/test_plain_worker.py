"""Plain tasks in a whole worker on the embedded engine, beside verbs: leases, releases and what is told of them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.pyzeebe_app import hello, orders
from tests.support.databases import execute, plain, value
from tests.support.eventually import eventually
from tests.support.ledger import TABLE, Account, Provider, ledger_registry
from tests.support.models import line
from tests.support.start import begin
from verbworker import PermanentContract, Registry, TaskCall
from verbworker.app import settings as config
from verbworker.app.explain import explain
from verbworker.app.wiring import open_app
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Resource, Start
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories
from verbworker.work.upkeep.releases import Release, Releases

HELLO = Path(hello.__file__).with_name("hello.bpmn")


@dataclass(frozen=True, slots=True)
class Site:
    """A worker on one database with its engine."""

    engine: EmbeddedEngine
    database: Database

    async def start(self, process: str, **variables: object) -> int:
        return (await self.engine.start(Start(process, variables))).instance_key

    async def ended(self, key: int) -> dict[str, object]:
        """The variables of an instance when it has ended."""

        async def look() -> bool:
            return not await self.engine.alive(key)

        await eventually(look)
        row = await self.database.fetchrow(
            "SELECT variables FROM verbworker_engine.ended_instance WHERE instance_key = $1", key
        )
        assert row is not None
        return dict(json.loads(row["variables"]))


@asynccontextmanager
async def worked(dsn: str, registry: Registry, **models: bytes) -> AsyncIterator[Site]:
    settings = config.load(dsn=dsn, engine="embedded", http_port=0, verb_connections=4, poll_wait=1, lease=3)
    stop = asyncio.Event()
    async with (
        open_app(settings, registry) as app,
        Database(dsn, size=2) as database,
        EmbeddedEngine(database) as engine,
        asyncio.TaskGroup() as tasks,
    ):
        await engine.deploy([Resource(f"{name}.bpmn", content) for name, content in models.items()])
        working = tasks.create_task(app.run(stop))
        try:
            yield Site(engine, database)
        finally:
            stop.set()
            await working


async def test_hello_world_runs_on_the_embedded_engine(dsn: str) -> None:
    async with worked(dsn, hello.registry, hello=HELLO.read_bytes()) as site:
        variables = await site.ended(await site.start("hello", name="Ada"))

    assert variables["greeting"] == "Hello, Ada!"
    assert variables["letter"] == await value(dsn, "SELECT idempotency_key FROM verbworker.job_frame")


async def test_the_whole_pyzeebe_application_runs_on_the_embedded_engine(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ledger.jsonl").touch()
    monkeypatch.setenv(orders.LEDGER, str(tmp_path / "ledger.jsonl"))
    order = {"order_id": "o-1", "amount": 100, "country": "DE", "customer": {"email": "a@b.example"}}
    async with worked(dsn, orders.registry, orders=Path(orders.__file__).with_name("orders.bpmn").read_bytes()) as site:
        done = await site.ended(await site.start("orders", **order))
        rejected = await site.ended(await site.start("orders", **{**order, "amount": -5}))

    assert (done["price"], done["tracking_number"], "tracking" in done) == (119.0, "dhl-o-1", False)
    assert "email" not in done, "the input of one task is not the process's"
    assert (rejected["refunded"], rejected["reason"]) == (-5, "rejected")


async def test_plain_tasks_and_verbs_share_a_worker(dsn: str) -> None:
    registry = Registry.of(ledger_registry(Provider()), hello.registry)
    workflow = registry.workflows["ledger.settle"]
    await execute(dsn, TABLE)
    models = {"hello": HELLO.read_bytes(), "settle": line(workflow.process, ["ledger.book"])}
    async with worked(dsn, registry, **models) as site:
        begun = await begin(site.database, site.engine, workflow, Account(amount=7).model_dump())
        keys = [await site.start("hello", name=str(number)) for number in range(20)]
        greetings = [(await site.ended(key))["greeting"] for key in keys]
        await site.ended(begun.instance_key)

    assert greetings == [f"Hello, {number}!" for number in range(20)]
    assert await value(dsn, "SELECT count(*) FROM ledger") == 1
    assert await value(dsn, "SELECT count(*) FROM verbworker.job_frame WHERE instance_uid IS NULL") == 20


@pytest.fixture
def fickle() -> tuple[Registry, Callable[[bool], None]]:
    """A task that is refused until the test lets it pass."""
    registry, may_pass = Registry(), [False]

    @registry.task("hello.greet")
    async def greet(call: TaskCall) -> dict[str, object]:
        if not may_pass[0]:
            raise PermanentContract("not yet", code="NotYet")
        return {"attempt": call.attempt}

    def let(passes: bool) -> None:
        may_pass[0] = passes

    return registry, let


async def _held(dsn: str) -> int | None:
    async with plain(dsn) as connection:
        key = await connection.fetchval(
            "SELECT job_key FROM verbworker.job_frame WHERE state = 'incident' AND reported_at IS NOT NULL"
        )
    return None if key is None else int(key)


async def test_a_held_plain_job_is_explained_and_released(
    dsn: str, fickle: tuple[Registry, Callable[[bool], None]]
) -> None:
    registry, let = fickle
    async with worked(dsn, registry, hello=HELLO.read_bytes()) as site:
        instance = await site.start("hello")
        key = await eventually(lambda: _held(dsn))
        assert key is not None
        histories = Histories(site.database, engine_id=site.engine.engine_id)
        history = await histories.read(key)
        assert history is not None
        story = [line.text for line in explain(history)]
        let(True)
        frames = Frames(site.database, engine_id=site.engine.engine_id, owner=history.frame.owner)
        released = await Releases(frames, histories, site.engine).release(
            Release(key, "ada", "it may pass", 3, False, None)
        )
        variables = await site.ended(instance)

    assert "(PermanentContract NotYet: not yet (at " in story[-1]
    assert released.done, released.sentence
    assert variables["attempt"] == 1, "a released job counts its runs anew"


async def test_a_held_plain_job_of_a_cancelled_instance_is_closed(
    dsn: str, fickle: tuple[Registry, Callable[[bool], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, _ = fickle
    monkeypatch.setattr("verbworker.work.upkeep.sweep._ASK_EVERY_S", 0.2)
    async with worked(dsn, registry, hello=HELLO.read_bytes()) as site:
        instance = await site.start("hello")
        key = await eventually(lambda: _held(dsn))
        await site.engine.cancel(instance)
        await execute(dsn, "UPDATE verbworker.job_frame SET reported_at = reported_at - interval '1 day'")

        async def closed() -> bool:
            return bool(await value(dsn, "SELECT count(*) FROM verbworker.job_frame WHERE fail_code = 'JobGone'"))

        await eventually(closed)

    assert key is not None
