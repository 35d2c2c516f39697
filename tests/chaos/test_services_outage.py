"""Postgres goes away while every background service has work: the worker stays, and all of it is done."""

import asyncio
import logging
import signal
from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest

from tests.support.embedded_service import Workshop, workshop
from tests.support.eventually import eventually
from tests.support.postgres import Postgres, Template
from tests.support.proxy import Proxy, proxied

_AWAY = 2.0
_ANSWER = "SELECT ack_result FROM verbworker.job_frame WHERE job_key = $1"
_ARCHIVED = "SELECT count(*) FROM verbworker.job_frame_archive WHERE job_key = $1"
_FIRST_JOB = """
SELECT frame.job_key
FROM verbworker.job_frame AS frame
JOIN verbworker.workflow_instance AS instance ON instance.instance_uid = frame.instance_uid
WHERE instance.entry_id = $1 AND frame.verb = 'shop.first'
"""
_UNACKNOWLEDGED = """
UPDATE verbworker.job_frame
SET acked_at = NULL, ack_result = NULL, relay_at = NULL, popped_at = now() - $2::interval
WHERE job_key = $1
"""
_ACKED_LONG_AGO = "UPDATE verbworker.job_frame SET acked_at = now() - interval '1 day' WHERE job_key = $1"


async def test_a_worker_outlives_a_postgres_that_goes_away_while_every_service_has_work(
    chaos_template: Template, server: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with chaos_template.clone() as dsn:
        async with (
            asyncio.timeout(120),
            proxied(dsn) as proxy,
            workshop(dsn, proxy.dsn) as shop,
            shop.working() as task,
        ):
            cases = await _brought_about(shop)
            proxy.go_away()
            late, jobs = await _left_work(shop, cases)
            shop.poke()
            await _crash(server, proxy)
            await _all_done(shop, cases, late, jobs)
            effects = Counter([row["name"] for row in await shop.database.fetch("SELECT name FROM effect")])
            await _resumed(shop)
            is_working = not task.done()

    assert is_working
    assert effects == Counter(dict.fromkeys([*cases, "late"], 1))
    assert [record.getMessage() for record in caplog.records if "bug" in record.getMessage()] == []
    waiting = Counter(record.__dict__["service"] for record in caplog.records if record.msg == "service is waiting")
    assert waiting["cancels"] == 1
    assert max(waiting.values()) == 1


async def _brought_about(shop: Workshop) -> dict[str, UUID]:
    """Cases that have come to each place where something may wait."""
    shop.steps.may_go_on.clear()
    names = ("letter", "gate", "cancel", "vanish", "stand")
    cases = {name: await shop.ask(name) for name in names}
    for name in ("gate", "stand"):
        await shop.waits(cases[name], at="letter")
        await shop.send(name)
        await shop.waits(cases[name], at="review")
    await shop.decide(cases["stand"])
    await shop.steps.standing.wait()
    for name in ("letter", "cancel", "vanish"):
        await shop.waits(cases[name], at="letter")
    await shop.until("SELECT count(*) FROM verbworker.job_frame WHERE acked_at IS NULL AND state = 'completed'", 0)
    return cases


async def _left_work(shop: Workshop, cases: dict[str, UUID]) -> tuple[UUID, dict[str, int]]:
    """Work for every service, while the worker cannot see it."""
    late = await shop.ask("late")
    await shop.send("letter")
    await shop.decide(cases["gate"])
    await shop.cancel(cases["cancel"])
    vanished = await shop.value(
        "SELECT instance_key FROM verbworker.workflow_instance WHERE entry_id = $1", cases["vanish"]
    )
    await shop.database.execute("DELETE FROM verbworker_engine.instance WHERE instance_key = $1", vanished)
    await shop.age(cases["vanish"])
    jobs = {
        "acknowledge": await shop.value(_FIRST_JOB, cases["letter"]),
        "relay": await shop.value(_FIRST_JOB, cases["gate"]),
        "archive": await shop.value(_FIRST_JOB, cases["cancel"]),
    }
    await shop.database.execute(_UNACKNOWLEDGED, jobs["acknowledge"], timedelta(0))
    await shop.database.execute(_UNACKNOWLEDGED, jobs["relay"], timedelta(minutes=1))
    await shop.database.execute(_ACKED_LONG_AGO, jobs["archive"])
    shop.app.worker._frames.acknowledge(jobs["acknowledge"], "ok")
    return late, jobs


async def _crash(server: Postgres, proxy: Proxy) -> None:
    await asyncio.to_thread(server.halt, signal.SIGQUIT)
    # The worker now reaches a port behind which nothing answers, then a server that is starting.
    await proxy.come()
    await asyncio.sleep(_AWAY)
    await asyncio.to_thread(server.resume)


async def _all_done(shop: Workshop, cases: dict[str, UUID], late: UUID, jobs: dict[str, int]) -> None:
    shop.steps.may_go_on.set()
    shop.poke()
    await shop.ends(cases["cancel"], "cancelled")
    await shop.ends(cases["vanish"], "cancelled")
    await shop.ends(cases["stand"])
    await shop.ends(cases["gate"])
    for name, entry_id in (("letter", cases["letter"]), ("late", late)):
        if name == "late":
            await shop.waits(entry_id, at="letter")
            await shop.send(name)
        await shop.waits(entry_id, at="review")
        await shop.decide(entry_id)
        await shop.ends(entry_id)
    await shop.until(_ARCHIVED, 1, jobs["archive"])
    # The relay hears that the job is gone; what was kept in memory is what the engine had answered.
    await shop.until(_ANSWER, "ok", jobs["acknowledge"])
    await shop.until(_ANSWER, "gone", jobs["relay"])


async def _resumed(shop: Workshop) -> None:
    """Return when every service reports that it is well."""

    async def are_well() -> bool:
        shop.poke()
        return all(service.health.failing_since is None for service in shop.services)

    await eventually(are_well)
