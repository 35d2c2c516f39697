"""A pyzeebe application under verbworker on the real broker: workers are killed, and no effect is lost or doubled."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyzeebe.proto import gateway_pb2 as messages

from tests.chaos.workers import WorkerGroup, WorkerPlace
from tests.pyzeebe_app import orders
from tests.support.client import Client, connected
from tests.support.databases import plain
from tests.support.postgres import Template
from tests.support.shop import wait_until
from tests.support.zeebe import Broker
from verbworker.job.failpoint import VARIABLE, Point

pytestmark = [pytest.mark.zeebe, pytest.mark.timeout(600)]

MODEL = Path(orders.__file__).with_name("orders.bpmn")
COMMAND = (str(Path(sys.executable).with_name("verbworker")), "worker", "--app", "tests.pyzeebe_app.orders:registry")
ORDER = {"order_id": "o-1", "amount": 100, "customer": {"email": "ada@example.org"}}
TASKS = ("validate", "price", "reserve", "charge", "ship", "notify", "archive")
_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Orders:
    """The application on one database and one broker: its workers, its ledger and its process."""

    workers: WorkerGroup
    client: Client
    dsn: str
    process: str
    ledger: Path

    @property
    def worker(self) -> WorkerPlace:
        """The only worker."""
        return self.workers.places[0]

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """What the ledger holds of one kind."""
        lines = self.ledger.read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["kind"] == kind]

    def runs(self) -> Counter[str]:
        """How often each task came to its end."""
        return Counter(line["task"] for line in self.lines("audit"))

    def effects(self) -> dict[str, list[str]]:
        """The keys under which each task did its effect, in order."""
        found: dict[str, list[str]] = {}
        for line in self.lines("effect"):
            found.setdefault(line["task"], []).append(line["key"])
        return found

    async def order(self, **changes: object) -> dict[str, Any]:
        """Place an order and return its variables when its process has ended."""
        start = messages.CreateProcessInstanceRequest(
            bpmnProcessId=self.process, version=-1, variables=json.dumps({**ORDER, **changes})
        )
        request = messages.CreateProcessInstanceWithResultRequest(request=start, requestTimeout=int(_TIMEOUT * 1000))
        answer = await self.client.stub.CreateProcessInstanceWithResult(request, timeout=_TIMEOUT)
        return dict(json.loads(answer.variables))

    async def until_effect(self, task: str) -> None:
        """Return when a task has begun its effect."""
        await asyncio.to_thread(wait_until, lambda: task in self.effects(), f"{task} never began")


@pytest.fixture
async def shop(
    chaos_template: Template, cluster: Broker, tmp_path: Path, unique: Callable[[str], str]
) -> AsyncIterator[Orders]:
    prefix = unique("orders")
    with chaos_template.clone() as dsn:
        async with _opened(dsn, cluster.address, prefix, tmp_path) as opened:
            yield opened


@asynccontextmanager
async def _opened(dsn: str, address: str, prefix: str, folder: Path) -> AsyncIterator[Orders]:
    ledger = folder / "ledger.jsonl"
    ledger.touch()
    settings = {
        "VERBWORKER_DSN": dsn,
        "VERBWORKER_ENGINE_ID": prefix,
        "VERBWORKER_LEASE": "4",
        "VERBWORKER_SWEEP_EVERY": "1",
        "VERBWORKER_SWEEP_GRACE": "1",
        "VERBWORKER_POLL_WAIT": "1",
        "ZEEBE_ADDRESS": address,
        "PYTHONPATH": os.getcwd(),
        "ORDERS_PREFIX": prefix,
        orders.LEDGER: str(ledger),
    }
    workers = WorkerGroup(1, settings, folder, command=COMMAND)
    async with connected(address) as client:
        # The prefix keeps this run's job types apart from other tests' on the same broker.
        model = MODEL.read_bytes().replace(b'type="orders.', f'type="{prefix}.'.encode())
        await client.deploy(
            prefix, model.replace(b'<bpmn:process id="orders"', f'<bpmn:process id="{prefix}"'.encode())
        )
        try:
            yield Orders(workers, client, dsn, prefix, ledger)
        finally:
            workers.end_all()


async def frames(shop: Orders) -> dict[str, tuple[str, bool]]:
    async with plain(shop.dsn) as connection:
        rows = await connection.fetch("SELECT verb, state, acked_at IS NOT NULL AS acked FROM verbworker.job_frame")
    return {row["verb"].rpartition(".")[2]: (row["state"], row["acked"]) for row in rows}


@pytest.mark.req("JOB-01", "JOB-05", "JOB-13")
async def test_what_completed_is_replayed_and_what_was_cut_off_runs_again_under_its_key(shop: Orders) -> None:
    ordered = asyncio.create_task(shop.order())
    # Three workers die when a verdict is stored and the engine does not know it.
    for _ in range(3):
        shop.workers.start(shop.worker, **{VARIABLE: f"{Point.POPPED}:kill"})
        assert await shop.workers.died(shop.worker) == -9
    stored = shop.runs()
    # The fourth is killed while the card is being charged.
    shop.workers.start(shop.worker, **{orders.SLOW: "charge=600"})
    await shop.until_effect("charge")
    shop.workers.kill(shop.worker)
    cut_off = shop.runs()
    shop.workers.start(shop.worker)
    variables = await ordered

    effects = shop.effects()
    assert stored == dict.fromkeys(("validate", "price", "reserve"), 1)
    assert cut_off == stored, "what had completed was replayed, never run again"
    assert shop.runs() == dict.fromkeys(TASKS, 1)
    assert {task: len(keys) for task, keys in effects.items()} == {
        **dict.fromkeys(("price", "reserve", "ship", "notify", "archive"), 1),
        "charge": 2,
    }
    assert len(set(effects["charge"])) == 1, "both charges have one key"
    assert variables["receipt"] == {"order": "o-1", "paid": 119.0, "key": effects["charge"][0]}
    assert (variables["price"], variables["tracking_number"]) == (119.0, "dhl-o-1")
    assert "tracking" not in variables, "the model's own mapping applied"


async def test_a_rejection_is_thrown_a_lost_connection_is_tried_again_and_every_frame_is_closed(shop: Orders) -> None:
    shop.workers.start(shop.worker)
    rejected = await shop.order(amount=-5)
    flaky = await shop.order(order_id="o-flaky", amount=10)
    code = await shop.workers.dismiss(shop.worker)

    assert (rejected["refunded"], rejected["reason"]) == (-5, "rejected")
    assert flaky["tracking_number"] == "dhl-o-flaky"
    assert len(set(shop.effects()["ship"])) == 1
    assert len(shop.effects()["ship"]) == 2
    assert code == 0
    closed = ("completed", True)
    assert await frames(shop) == dict.fromkeys((*(set(TASKS) - {"reserve"}), "refund"), closed)
    assert shop.workers.bugs() == []
