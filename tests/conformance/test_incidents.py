"""Incidents and waits on every engine: by its own state, by search, or refused where it cannot know."""

import asyncio
from collections.abc import Callable

import pytest

from tests.support.drawing import Drawing
from tests.support.engine_cases import without_a_way
from tests.support.engines import Gateway
from tests.support.zeebe import Broker
from tests.support.zeebe_engine import zeebe
from verbworker.engine.inline import InlineEngine
from verbworker.engine.protocol import Ask, Resource, Searchable, Start
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import JobGone, NotOffered
from verbworker.job.outcome import JobResult

ON = ("zeebe", "zeebe-rest")
_KEYS = 60  # gRPC gives no key of an incident; it is one of the next


@pytest.mark.zeebe
async def test_a_broker_without_search_offers_none_by_any_of_its_searches(broker: Gateway) -> None:
    assert isinstance(broker, Broker)
    address = GatewayAddress(broker.address, rest_url=f"http://{broker.rest_address}")
    async with ZeebeEngine(address, engine_id="x") as engine:
        assert isinstance(engine, Searchable)
        for search in (engine.incidents(), engine.waits(1), engine.user_tasks(), engine.open_jobs([1])):
            with pytest.raises(NotOffered, match="offers no search"):
                await search


async def test_an_incident_without_a_job_goes_on_with_a_flag_and_its_key(
    gateway: Gateway, unique: Callable[[str], str]
) -> None:
    drawing = without_a_way()
    drawing.process = unique("incident")
    decide, left = unique("incident.decide"), unique("incident.left")
    model = (
        drawing.xml()
        .replace(b'type="decide"', f'type="{decide}"'.encode())
        .replace(b'type="left"', f'type="{left}"'.encode())
    )
    async with zeebe(gateway.address) as engine:
        await engine.deploy([Resource("p.bpmn", model)])
        await engine.start(Start(drawing.process, {}))
        (job,) = await engine.activate(Ask(decide, "tests", 60_000, ()), 1, 10_000)
        await engine.complete(job.key, JobResult(flags={"orch_way": False}))
        await asyncio.sleep(0.5)  # the incident is raised after the answer
        await engine.set_flags(job.process_instance_key, {"orch_way": True})
        for key in range(job.key + 1, job.key + _KEYS):
            try:
                await engine.resolve_incident(key)
            except JobGone:
                continue
            break
        else:
            raise AssertionError("no incident among the next keys")
        (following,) = await engine.activate(Ask(left, "tests", 60_000, ("orch_way",)), 1, 10_000)
        await engine.cancel(job.process_instance_key)
        with pytest.raises(JobGone):
            await engine.set_flags(job.process_instance_key, {"orch_way": False})

    assert following.variables == {"orch_way": True}


@pytest.mark.req("ADP-11")
async def test_the_engine_in_memory_has_incidents_and_waits() -> None:
    engine = InlineEngine()
    await engine.deploy([Resource("p.bpmn", without_a_way().xml())])
    one = (await engine.start(Start("p", {}))).instance_key
    other = (await engine.start(Start("p", {}))).instance_key
    for job in await engine.activate(Ask("decide", "tests", 60_000, ()), 2, 1_000):
        await engine.complete(job.key, JobResult(flags={"orch_way": False}))

    every, mine = await engine.incidents(), await engine.incidents([one])

    assert ([one.instance_key for one in every], [two.instance_key for two in mine]) == ([one, other], [one])
    assert (mine[0].kind, mine[0].element_id, mine[0].job_key) == ("CONDITION_ERROR", "which", None)
    assert [wait.type for wait in await engine.waits(one)] == ["EXCLUSIVE_GATEWAY"]
    await engine.cancel(one)
    assert (await engine.waits(one), len(await engine.incidents())) == ([], 1)
    await engine.set_flags(other, {"orch_way": True})
    await engine.resolve_incident(every[1].incident_key)
    assert [job.type for job in await engine.activate(Ask("left", "tests", 60_000, ()), 1, 1_000)] == ["left"]
    with pytest.raises(JobGone):
        await engine.set_flags(one, {"orch_way": True})


@pytest.mark.req("ADP-11")
async def test_each_message_that_a_token_waits_for_is_a_wait() -> None:
    drawing = Drawing().start().gateway("eventBased", "first").catch("a", message="x").catch("b", message="y").end()
    drawing.flow("begin", "first").flow("first", "a").flow("first", "b").flow("a", "end").flow("b", "end")
    engine = InlineEngine()
    await engine.deploy([Resource("p.bpmn", drawing.xml())])
    started = await engine.start(Start("p", {"corr_key": "k"}))

    waits = await engine.waits(started.instance_key)

    assert [(wait.element_id, wait.message_name, wait.correlation_key) for wait in waits] == [
        ("a", "x", "k"),
        ("b", "y", "k"),
    ]
