"""Completion on every engine: an entry ends with the payload of record, checked, and never otherwise."""

import json
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest
from pyzeebe.proto import gateway_pb2 as pb

from tests.support import case_models as models
from tests.support.case_setup import COMPLETE, PARK, CaseSetup, case_setup
from tests.support.engines import Gateway
from tests.support.entries import told
from tests.support.zeebe_engine import Bench
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.zeebe import wire
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.job.job import PAYLOAD, PAYLOAD_HASH
from verbworker.runbook.event import Kind, Wait
from verbworker.runbook.progress import coarse_progress, progress

ON = ("embedded", "zeebe", "zeebe-rest")
ALSO_ON = ("zeebe-8.8", "zeebe-8.9")


@pytest.fixture
async def setup(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    async with case_setup(dsn, gateway.address, unique("case")) as setup:
        yield setup


@pytest.mark.req("EVT-07", "EVT-09", "EVT-11", "EVT-16", "X-37", "COR-06", "COR-10", "WAIT-07", "ADP-03")
async def test_a_process_that_ends_completes_its_entry_with_the_outcome(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first", "second")
    instance_key = await setup.instance_key(entry_id)
    await setup.serve("first", "second", COMPLETE)

    entry, (result,) = await setup.entry(entry_id), await setup.events(entry_id, Kind.RESULT)
    assert (entry.status, entry.outcome) == ("completed", {"first": "done", "second": "done"})
    assert told(result, "result", "flags", "payload_version", "instance_key") == {
        "result": "ok",
        "flags": {"orch_first": True},
        "payload_version": 2,
        "instance_key": instance_key,
    }
    assert await setup.kinds(entry_id) == ["DurableTaskStarted", "StepCompleted", "StepCompleted", "ExecutionResult"]
    assert (await setup.runbook.verify(entry.tenant_id)).broken == {}
    await setup.until_gone(instance_key)
    row = await setup.database.fetchrow("SELECT status FROM verbworker.workflow_instance")
    assert row is not None
    assert row["status"] == "completed"


@pytest.mark.req("EVT-11", "X-41")
async def test_after_parallel_branches_the_payload_of_record_counts(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.forks)
    await setup.serve("first", "second")
    last = await setup.serve(COMPLETE)

    carried = json.loads(str(last.variables[PAYLOAD]))["data"]
    assert (await setup.entry(entry_id)).outcome == {"first": "done", "second": "done"}
    assert carried["second"] == "done"


@pytest.mark.req("EVT-11")
async def test_a_completion_that_comes_again_changes_nothing(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first")
    await setup.serve("first")
    job = await setup.take(COMPLETE)
    await setup.deliver(job)
    before = await setup.kinds(entry_id)

    await setup.deliver(job)

    assert await setup.kinds(entry_id) == before
    assert setup.engine.failures == []


@pytest.mark.req("EVT-11")
async def test_a_completion_whose_answer_was_lost_is_only_repeated_to_the_engine(
    setup: CaseSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_id = await setup.start(models.line, "first")
    await setup.serve("first")
    job = await setup.take(COMPLETE)
    handler: Any = setup.handlers[COMPLETE]
    # The worker dies between its commit and its word to the engine.
    with monkeypatch.context() as patch:
        patch.setattr(setup.engine, "complete", _never)
        await handler.serve(job)
    instance_key, ended = await setup.instance_key(entry_id), await setup.status(entry_id)
    alive = await setup.engine.alive(instance_key)

    await setup.deliver(job)

    assert (ended, alive) == ("completed", True)
    await setup.until_gone(instance_key)


async def _never(job_key: int, variables: Any) -> None:
    """Say nothing."""


def _forged(variables: dict[str, Any]) -> dict[str, Any]:
    return {PAYLOAD: str(variables[PAYLOAD]).replace("done", "dune")}


def _foreign(variables: dict[str, Any]) -> dict[str, Any]:
    content = str(variables[PAYLOAD]).replace("done", "dune")
    return {PAYLOAD: content, PAYLOAD_HASH: "sha256:" + sha256(content.encode()).hexdigest()}


def _flagged(variables: dict[str, Any]) -> dict[str, Any]:
    return {"orch_first": "yes"}


@pytest.mark.req("EVT-11", "EVT-14", "EVT-08", "X-34")
@pytest.mark.parametrize(
    ("tamper", "code"), [(_forged, "SealMismatch"), (_foreign, "PayloadForeign"), (_flagged, "FlagForeign")]
)
async def test_a_payload_that_breaks_its_contract_is_an_incident(
    setup: CaseSetup, tamper: Callable[[dict[str, Any]], dict[str, Any]], code: str
) -> None:
    entry_id = await setup.start(models.line, "first")
    job = await setup.take("first")
    await setup.executor.execute(job)
    instance_key = job.process_instance_key
    last = await setup.take(COMPLETE, timeout_ms=1)
    await set_variables(setup, instance_key, tamper(dict(last.variables)))

    await setup.deliver(await setup.take(COMPLETE))

    ((_, retries, message),) = setup.engine.failures
    (wait,) = await setup.waits(entry_id)
    (raised,) = await setup.events(entry_id, Kind.INCIDENT_RAISED)
    assert retries == 0
    assert code in message
    assert "dune" not in message
    assert (wait.kind, await setup.status(entry_id)) == (Wait.INCIDENT, "parked")
    assert told(raised, "code", "job_key", "instance_key") == {
        "code": code,
        "job_key": last.key,
        "instance_key": instance_key,
    }


async def test_an_incident_at_the_end_is_resolved_by_what_was_wrong(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first")
    await setup.serve("first")
    last = await setup.take(COMPLETE, timeout_ms=1)
    instance_key = last.process_instance_key
    await set_variables(setup, instance_key, _forged(dict(last.variables)))
    job = await setup.serve(COMPLETE)
    await set_variables(setup, instance_key, {PAYLOAD: last.variables[PAYLOAD]})
    await Bench(setup.engine, "", "").incident_of(job)

    await setup.serve(COMPLETE)

    assert await setup.status(entry_id) == "completed"
    assert (await setup.kinds(entry_id))[-3:] == ["IncidentResolved", "Resumed", "ExecutionResult"]


@pytest.mark.req("EVT-09", "EVT-16")
async def test_an_entry_whose_steps_were_undone_fails_with_the_trail(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first", "second")
    await setup.serve("first", "second")
    for number, verb in enumerate(("undo-second", "undo-first")):
        await setup.runbook.append(entry_id, Kind.COMPENSATED, once=f"undo:{number}", detail={"verb": verb})

    await setup.serve(COMPLETE)

    (result,) = await setup.events(entry_id, Kind.RESULT)
    assert await setup.status(entry_id) == "failed"
    assert told(result, "result", "code", "undone") == {
        "result": "err",
        "code": "Compensated",
        "undone": ["undo-second", "undo-first"],
    }
    assert result.detail["done"] == [f"{setup.domain}.first", f"{setup.domain}.second"]


@pytest.mark.req("EVT-12", "EVT-13", "EVT-18", "COR-11", "EVT-17")
async def test_progress_is_told_from_what_happened_and_what_is_waited_for(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.waits_for, event=models.LETTER)
    begun = await told_progress(setup, entry_id)
    await setup.serve("first", PARK)
    parked = await told_progress(setup, entry_id)
    await setup.send()
    await setup.serve("verbworker.unpark", "second", COMPLETE)

    assert begun == ("in progress", "0 of 2")
    assert parked == ("parked", "1 of 2, awaiting documents")
    assert await told_progress(setup, entry_id) == ("done", "2 of 2, completed")
    assert (await setup.entry(entry_id)).mode == "human_gate"


async def told_progress(setup: CaseSetup, entry_id: UUID) -> tuple[str, str]:
    entry = await setup.entry(entry_id)
    deployment = await setup.deployments.find(entry.definition_key or 0)
    assert deployment is not None
    events, waits = await setup.events(entry_id), await setup.waits(entry_id)
    found = progress(entry, events, waits, steps=deployment.steps)
    return coarse_progress(found.status), found.detailed


async def set_variables(setup: CaseSetup, instance_key: int, variables: dict[str, Any]) -> None:
    """As a person can in the engine."""
    if isinstance(setup.engine, EmbeddedEngine):
        await setup.engine.set_variables(instance_key, variables)
        return
    request = wire.message(
        pb.SetVariablesRequest, elementInstanceKey=instance_key, variables=json.dumps(variables), local=True
    )
    assert isinstance(setup.engine, ZeebeEngine)
    await setup.engine._send("SetVariables", request)
