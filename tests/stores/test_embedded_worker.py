"""A whole worker on the embedded engine: one database, nothing else."""

import asyncio

import pytest

from tests.support.databases import value
from tests.support.embedded import embedded
from tests.support.eventually import eventually
from tests.support.ledger import TABLE, Account, Provider, ledger_registry
from tests.support.models import line
from tests.support.start import begin
from verbworker.engine import Resource
from verbworker.engines.embedded.engine import EmbeddedEngine
from verbworker.ops import config
from verbworker.ops.app import choose_engine, opened
from verbworker.ops.config import Settings
from verbworker.stores._database import Database

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
    async with opened(settings(dsn), registry) as app, Database(dsn, size=2) as database:
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


async def test_an_engine_closed_twice_is_closed(dsn: str) -> None:
    engine = embedded(dsn)
    async with engine:
        await engine.facts()

    await engine.__aexit__(None, None, None)

    assert (await value(dsn, "SELECT 1")) == 1
