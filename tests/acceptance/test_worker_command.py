"""`verbworker worker` as an operator meets it: a process on a real database and a real broker."""

import asyncio
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.collector import collector
from tests.support.command import verbworker
from tests.support.databases import plain
from tests.support.engines import Gateway
from tests.support.ports import LOOPBACK, free_ports
from tests.support.postgres import Postgres
from tests.support.shop import (
    ENGINE_ID,
    ITEM,
    Shop,
    WorkerProcess,
    make_shop,
    open_orders,
    wait_until,
    worker_process,
)

pytestmark = pytest.mark.zeebe


@pytest.fixture
def suffix(unique: Callable[[str], str]) -> str:
    return unique("x").removeprefix("x-")


@pytest.fixture
def shop(tmp_path: Path, suffix: str) -> Shop:
    """An application with one verb, in a folder of its own."""
    return make_shop(tmp_path, suffix)


async def frame_of(dsn: str, instance_uid: object, state: str = "acked") -> Any:
    """The frame of an instance, once it is acknowledged or in the given state."""
    reached = "acked_at IS NOT NULL" if state == "acked" else f"state = '{state}' AND reported_at IS NOT NULL"
    async with plain(dsn) as connection, asyncio.timeout(60):
        while True:
            row = await connection.fetchrow(
                "SELECT job_key, state, outcome, epoch, octet_length(output) AS size FROM verbworker.job_frame"
                f" WHERE instance_uid = $1 AND {reached}",
                instance_uid,
            )
            if row is not None:
                return row
            await asyncio.sleep(0.02)


def logged(worker: WorkerProcess) -> list[dict[str, Any]]:
    """The log, every line of which must be JSON."""
    return [json.loads(line) for line in worker.log.read_text().splitlines()]


@pytest.mark.req("JOB-04", "JOB-15", "ADP-04", "ADP-06")
@pytest.mark.parametrize("mode", ["external", "transactional"])
async def test_a_job_is_worked_shown_and_told(
    tmp_path: Path, suffix: str, mode: str, dsn: str, broker: Gateway
) -> None:
    shop = make_shop(tmp_path, suffix, mode=mode)
    with worker_process(shop, dsn, broker.address) as worker:
        worker.until("/ready", 200)
        async with open_orders(shop, dsn, broker.address) as orders:
            begun = await orders.order()
            frame = await frame_of(dsn, begun.instance_uid)
        _, figures = worker.get("/metrics")
        alive, _ = worker.get("/live")
        code = worker.end()
    story = verbworker(
        "frames", "explain", str(frame["job_key"]), directory=tmp_path, dsn=dsn, VERBWORKER_ENGINE_ID=ENGINE_ID
    )

    assert (frame["state"], frame["outcome"]) == ("completed", "complete")
    assert (alive, code) == (200, 0)
    assert f'verbworker_claims_total{{kind="new",verb="{shop.verb}"}} 1.0' in figures
    assert f'verbworker_outcomes_total{{failure_class="",outcome="completed",verb="{shop.verb}"}} 1.0' in figures
    assert 'verbworker_pool_wait_seconds_count{pool="control"}' in figures
    assert str(frame["job_key"]) not in figures
    headline, *lines = [line.rpartition("  ")[2] for line in story.out.splitlines()]
    assert headline.startswith(f"Job {frame['job_key']} is {shop.verb} at task of process {shop.process} version 1")
    assert [re.sub(r"orker .*? \(.*?\)", "orker W", line) for line in lines] == [
        f"The engine delivered the job; worker W wrote its frame as epoch 1 and began run 1 ({mode} mode).",
        f"Worker W stored the verdict of run 1: completed with {frame['size']} bytes of payload"
        " and orch_charged = True.",
        "The engine acknowledged the verdict.",
        "The job is finished after 1 delivery.",
    ]
    assert ITEM not in worker.log.read_text() + story.out


async def test_the_log_is_json_with_the_verbs_own_lines(shop: Shop, dsn: str, broker: Gateway) -> None:
    with worker_process(shop, dsn, broker.address) as worker:
        worker.until("/ready", 200)
        async with open_orders(shop, dsn, broker.address) as orders:
            begun = await orders.order()
            await frame_of(dsn, begun.instance_uid)
        worker.end()
    lines = logged(worker)

    (own,) = [line for line in lines if line["message"] == "charging"]
    assert (own["logger"], own["verb"], own["entry_id"]) == ("verbworker.verb", shop.verb, str(begun.entry_id))
    assert [line["message"] for line in lines][-1] == "drained"


async def test_a_job_is_a_span_when_tracing_is_on(shop: Shop, dsn: str, broker: Gateway) -> None:
    with (
        collector() as collected,
        worker_process(
            shop, dsn, broker.address, VERBWORKER_OTEL="true", OTEL_EXPORTER_OTLP_ENDPOINT=collected.address
        ) as worker,
    ):
        worker.until("/ready", 200)
        async with open_orders(shop, dsn, broker.address) as orders:
            begun = await orders.order()
            frame = await frame_of(dsn, begun.instance_uid)
        worker.end()

    (span,) = [span for span in collected.spans if span["name"] == f"process {shop.verb}"]
    assert (span["messaging.system"], span["verbworker.outcome"], span["verbworker.attempt"]) == (
        "zeebe",
        "completed",
        1,
    )
    assert span["verbworker.job_key"] == frame["job_key"]
    assert "messaging.process.duration" in collected.metrics
    assert ITEM.encode() not in b"".join(collected.bodies)


async def test_a_drain_finishes_what_runs_and_ends_well(shop: Shop, dsn: str, broker: Gateway) -> None:
    shop.put("hold")
    with worker_process(shop, dsn, broker.address) as worker:
        worker.until("/ready", 200)
        async with open_orders(shop, dsn, broker.address) as orders:
            begun = await orders.order()
            wait_until(shop.has_begun, "the verb never began")
            worker.send(signal.SIGTERM)
            unready = worker.until("/ready", 503)
            shop.take("hold")
            frame = await frame_of(dsn, begun.instance_uid)
        code = worker.exit_code()

    assert unready["checks"]["draining"] == "no more jobs are taken"
    assert (frame["state"], frame["epoch"], code) == ("completed", 1, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_at_once(number: signal.Signals, shop: Shop, dsn: str, broker: Gateway) -> None:
    shop.put("hold")
    with worker_process(shop, dsn, broker.address) as worker:
        worker.until("/ready", 200)
        async with open_orders(shop, dsn, broker.address) as orders:
            await orders.order()
            wait_until(shop.has_begun, "the verb never began")
        worker.send(number)
        worker.until_logged("draining")
        worker.send(number)
        code = worker.exit_code()

    assert code == 128 + number


async def test_a_second_signal_ends_a_process_whose_loop_is_stuck(shop: Shop, dsn: str, broker: Gateway) -> None:
    shop.rewrite("while (HERE", "while True or (HERE", sleep="time.sleep(0.02)")
    with worker_process(shop, dsn, broker.address) as worker:
        worker.until("/ready", 200)
        async with open_orders(shop, dsn, broker.address) as orders:
            await orders.order()
            wait_until(shop.has_begun, "the verb never began")
        worker.send(signal.SIGTERM)
        worker.send(signal.SIGINT)
        code = worker.exit_code()

    assert code in (128 + signal.SIGTERM, 128 + signal.SIGINT)


async def test_a_drain_does_not_wait_for_ever_for_a_thread(shop: Shop, dsn: str, broker: Gateway) -> None:
    shop.rewrite("async def charge", "def charge", sleep="time.sleep(0.02)")
    shop.put("hold")
    with worker_process(shop, dsn, broker.address, VERBWORKER_GRACE="0.1") as worker:
        worker.until("/ready", 200)
        async with open_orders(shop, dsn, broker.address) as orders:
            await orders.order()
            wait_until(shop.has_begun, "the verb never began")
        worker.send(signal.SIGTERM)
        code = worker.exit_code()

    assert (code, logged(worker)[-1]["message"]) == (0, "drained")


async def test_a_drain_does_not_wait_for_ever_for_a_verb_that_ignores_its_cancellation(
    shop: Shop, dsn: str, broker: Gateway
) -> None:
    deaf = (
        "while True:\n            try:\n                await asyncio.sleep(60)\n            except BaseException: pass"
    )
    shop.rewrite("while (HERE", "while True or (HERE", sleep=deaf)
    with worker_process(shop, dsn, broker.address, VERBWORKER_GRACE="0.1") as worker:
        worker.until("/ready", 200)
        async with open_orders(shop, dsn, broker.address) as orders:
            await orders.order()
            wait_until(shop.has_begun, "the verb never began")
        worker.send(signal.SIGTERM)
        code = worker.exit_code()

    last = logged(worker)[-1]
    assert (code, last["message"]) == (0, "ended; some runs ignored their cancellation")
    assert last["runs"] == 1


@pytest.mark.req("FAIL-04", "FAIL-05", "FAIL-10")
async def test_a_held_job_is_listed_explained_released_and_runs(
    shop: Shop, dsn: str, broker: Gateway, tmp_path: Path
) -> None:
    def frames(*words: str) -> str:
        said = verbworker(
            "frames", *words, directory=tmp_path, dsn=dsn, VERBWORKER_ENGINE_ID=ENGINE_ID, ZEEBE_ADDRESS=broker.address
        )
        assert said.code == 0, said
        return said.out

    shop.put("refuse")
    with worker_process(shop, dsn, broker.address) as worker:
        worker.until("/ready", 200)
        async with open_orders(shop, dsn, broker.address) as orders:
            begun = await orders.order()
            held = await frame_of(dsn, begun.instance_uid, "incident")
            key = str(held["job_key"])
            listed = json.loads(frames("list", "--json"))
            before = frames("explain", key)
            shop.take("refuse")
            released = frames("release", key, "--reason", "customer added", "--by", "eve")
            await resolve(orders.engine, held["job_key"])
            await frame_of(dsn, begun.instance_uid)
        worker.end()
    after = frames("explain", key)

    assert [(row["job_key"], row["fail_code"]) for row in listed] == [(held["job_key"], "NoCustomer")]
    assert "was stopped for a person (PermanentContract NoCustomer: no such customer (at shop.py:" in before
    assert "reported it to the engine, which raised an incident" in before
    assert (
        released == "the frame is released and the job has 3 retries, but it does not run yet, although its entry shows"
        " executing; resolve its incident in the engine, or run this again with --incident-key\n"
    )
    assert "Eve released the job under the same idempotency key (customer added); 3 retries are left." in after
    assert "claimed it as epoch 2 and began run 1: a person had released it." in after
    assert "The engine acknowledged the verdict." in after


async def resolve(engine: Any, job_key: int) -> None:
    """Resolve the job's incident as an operator would; its key is one of the next ones the engine gave out."""
    for key in range(job_key + 1, job_key + 200):
        try:
            await engine.release(job_key, retries=3, incident_key=key)
        except Exception as error:
            if "JobGone" not in type(error).__name__:
                raise
        else:
            return
    raise AssertionError("the incident was not found")


@pytest.mark.req("JOB-01", "FAIL-11", "EVT-16")
async def test_a_job_of_a_killed_worker_is_taken_over_and_the_story_says_so(
    shop: Shop, dsn: str, broker: Gateway, tmp_path: Path
) -> None:
    hasty = {"VERBWORKER_LEASE": "3", "VERBWORKER_ENGINE_TIMEOUT": "3"}
    shop.put("hold")
    async with open_orders(shop, dsn, broker.address) as orders:
        with worker_process(shop, dsn, broker.address, "--name", "ann", **hasty) as ann:
            ann.until("/ready", 200)
            begun = await orders.order()
            wait_until(shop.has_begun, "the verb never began")
            ann.send(signal.SIGKILL)
            ann.exit_code()
        shop.take("hold")
        with worker_process(shop, dsn, broker.address, "--name", "bob", **hasty) as bob:
            frame = await frame_of(dsn, begun.instance_uid)
            bob.end()
    said = verbworker(
        "frames", "explain", str(frame["job_key"]), directory=tmp_path, dsn=dsn, VERBWORKER_ENGINE_ID=ENGINE_ID
    )
    story = re.sub(r"\d\d:\d\d:\d\d\.\d{3}", "T", re.sub(r" \(host .*?\)", "", said.out))

    assert "The engine delivered the job; worker ann wrote its frame as epoch 1 and began run 1" in story
    assert (
        "The engine delivered the job again; worker bob took it over as epoch 2 and began run 2: the lease of worker"
        " ann had run out at T without a heartbeat. What worker ann still writes is refused." in story
    )
    assert "Worker bob stored the verdict of run 2" in story


def test_an_engine_that_is_away_is_waited_for(shop: Shop, dsn: str) -> None:
    (nobody,) = free_ports(1)
    with worker_process(shop, dsn, f"{LOOPBACK}:{nobody}") as worker:
        unready = worker.until("/ready", 503)
        alive, _ = worker.get("/live")
        code = worker.end()

    assert unready["checks"]["gateway"] == "EngineUnavailable"
    assert unready["checks"]["database"] == "ok"
    assert (alive, code) == (200, 0)


async def test_a_worker_outlives_a_crash_of_its_database(shop: Shop, broker: Gateway, tmp_path: Path) -> None:
    with Postgres() as server:
        verbworker("db", "migrate", directory=tmp_path, dsn=server.dsn)
        with worker_process(shop, server.dsn, broker.address) as worker:
            worker.until("/ready", 200)
            server.restart_immediate()
            worker.until("/ready", 200)
            async with open_orders(shop, server.dsn, broker.address) as orders:
                begun = await orders.order()
                frame = await frame_of(server.dsn, begun.instance_uid)
            code = worker.end()

    assert (frame["state"], code) == ("completed", 0)
