"""The example application in verbs/ and processes/, on real parts."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.engines import Gateway
from tests.support.start import begin
from verbs import registry
from verbworker.app import wiring as app
from verbworker.app.settings import Settings
from verbworker.engine.protocol import Resource
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.stores.database import Database

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "processes" / "document-collect" / "process.bpmn"


async def until_reminded(database: Database) -> list[tuple[object, ...]]:
    """The example's table, as soon as somebody was reminded."""
    async with asyncio.timeout(60):
        while True:
            rows = await database.fetch("SELECT client, document, reminders FROM document_request")
            if any(row["reminders"] for row in rows):
                return [tuple(row) for row in rows]
            await asyncio.sleep(0.05)


@pytest.mark.zeebe
@pytest.mark.req("REG-02", "REG-03", "REG-12", "ORC-04")
async def test_the_example_asks_once_and_reminds_once(dsn: str, broker: Gateway, unique: Callable[[str], str]) -> None:
    engine = ZeebeEngine(GatewayAddress(address=broker.address), engine_id=unique("example"))
    workflow = registry.workflows["document.collect"]
    stop = asyncio.Event()
    settings = Settings(dsn=dsn, engine_id=engine.engine_id, http_port=0, poll_wait=1)  # type: ignore[arg-type]
    async with Database(dsn, size=2) as database:
        await database.execute((ROOT / "verbs" / "document.sql").read_text())
        async with app.open_app(settings, registry, engine) as opened, asyncio.TaskGroup() as tasks:
            await engine.deploy([Resource("process.bpmn", MODEL.read_bytes())])
            tasks.create_task(opened.run(stop))
            data = workflow.initial_data({"client": "Allianz GmbH", "document": "passport"})
            await begin(database, engine, workflow, data)
            rows = await until_reminded(database)
            stop.set()

    assert rows == [("Allianz GmbH", "passport", 1)]


@pytest.mark.req("LNT-07")
def test_the_examples_model_is_hollow() -> None:
    command = [sys.executable, "-m", "verblint", "check", str(MODEL), "--verbs", str(ROOT / "verbs")]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
