"""A whole worker on the embedded engine: one database, nothing else."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.support.databases import value
from tests.support.embedded import embedded
from tests.support.eventually import eventually
from tests.support.ledger import TABLE, Account, Provider, ledger_registry
from tests.support.models import line
from tests.support.start import begin
from tests.support.start_router import asking
from verbworker.app import settings as config
from verbworker.app.settings import Settings
from verbworker.app.wiring import choose_engine, open_app
from verbworker.client.resources import open_resources
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Ask, Resource
from verbworker.model.weave import weave
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.stalls import Stalls
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.work.starts.dispatcher import Dispatcher

UNTOLD = "SELECT count(*) FROM verbworker.job_frame WHERE state <> 'completed' OR acked_at IS NULL"


def settings(dsn: str) -> Settings:
    return config.load(dsn=dsn, engine="embedded", http_port=0, verb_connections=4, poll_wait=1)


def test_the_settings_choose_the_engine_and_it_needs_no_address(dsn: str) -> None:
    engine = choose_engine(settings(dsn))

    assert isinstance(engine, EmbeddedEngine)
    assert engine.engine_id == "embedded"


@pytest.mark.req("TOK-20", "TOK-21", "ADP-01")
async def test_a_worker_carries_instances_to_their_end_on_a_database_alone(dsn: str) -> None:
    provider = Provider()
    registry = ledger_registry(provider)
    workflow = registry.workflows["ledger.settle"]
    stop = asyncio.Event()
    async with open_app(settings(dsn), registry) as app, Database(dsn, size=2) as database:
        await database.execute(TABLE)
        async with EmbeddedEngine(database) as engine, asyncio.TaskGroup() as tasks:
            model = line(workflow.process, ["ledger.book", "ledger.send", "ledger.annotate"])
            await engine.deploy([Resource("settle.bpmn", model)])
            working = tasks.create_task(app.run(stop))
            begun = [await begin(database, engine, workflow, Account(amount=7).model_dump()) for _ in range(20)]

            async def all_ended() -> bool:
                return not any([await engine.alive(one.instance_key) for one in begun])

            await eventually(all_ended)
            stop.set()
            await working

    assert await value(dsn, "SELECT count(*) FROM ledger") == 20
    assert len(provider.calls) == len(provider.effects) == 20
    assert await value(dsn, UNTOLD) == 0


async def test_a_worker_names_a_case_whose_job_was_handed_out_and_never_claimed(dsn: str) -> None:
    registry = ledger_registry(Provider())
    workflow = registry.workflows["ledger.settle"]
    quick = settings(dsn).model_copy(
        update={"engine_timeout": timedelta(seconds=1), "stall_grace": timedelta(seconds=1)}
    )
    stop, owner = asyncio.Event(), uuid4()
    async with Database(dsn, size=2) as database, EmbeddedEngine(database) as engine:
        await database.execute(TABLE)
        woven = weave(line(workflow.process, ["ledger.book"]), registry)
        (deployed,) = await engine.deploy([Resource("settle.bpmn", woven.content)])
        deployments, sha256 = Deployments(database, engine_id=engine.engine_id), b"x" * 32
        await deployments.record(deployed, woven, resource="settle.bpmn", authored_sha256=sha256, by="tests")
        async with open_resources(quick, registry) as resources:
            entry = await resources.router.invoke(workflow.name, {}, caller=asking())
        dispatches = Dispatches(database, engine_id=engine.engine_id, owner=owner)
        await Dispatcher(dispatches, Instances(database), engine).drain()
        (lost,) = await engine.activate(Ask("ledger.book", "a worker that died", 3_600_000, ()), 1, 5_000)

        async def is_named() -> bool:
            return bool(await Stalls(database).of_entry(entry.entry_id))

        async def has_ended() -> bool:
            return not await engine.alive(lost.process_instance_key) and not await is_named()

        async with open_app(quick, registry) as app, asyncio.TaskGroup() as tasks:
            working = tasks.create_task(app.run(stop))
            await eventually(is_named)
            (stall,) = await Stalls(database).of_entry(entry.entry_id)
            await engine.fail(lost.key, retries=lost.retries, message="freed by an operator")
            await eventually(has_ended)
            stop.set()
            await working

    assert "a job of ledger.book at" in stall.reason
    assert "handed to a worker that died" in stall.reason
    assert await value(dsn, "SELECT count(*) FROM ledger") == 1


async def test_an_engine_closed_twice_is_closed(dsn: str) -> None:
    engine = embedded(dsn)
    async with engine:
        await engine.facts()

    await engine.__aexit__(None, None, None)

    assert (await value(dsn, "SELECT 1")) == 1
