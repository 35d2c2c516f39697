"""What breaks its contract ends in an incident at once: a frame is left, the message is readable, nothing moved."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.engines import Gateway
from tests.support.ledger import EFFECTS, TABLE, Account, Provider, ledger_registry, ledger_verbs, ledger_workflow
from tests.support.rig import Rig, opened
from tests.support.start import Begun, begin, prepare
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Start
from verbworker.errors import JobNotActive
from verbworker.job.frame import FrameState
from verbworker.job.job import INSTANCE_UID, PAYLOAD, PAYLOAD_HASH, Job
from verbworker.job.outcome import NO_RESULT
from verbworker.payload.signature import digest
from verbworker.stores.cases import payloads

ON = ("zeebe", "zeebe-rest")
SECRET = "Allianz"


@pytest.fixture
def domain(unique: Callable[[str], str]) -> str:
    return unique("ledger")


@pytest.fixture
async def rig(dsn: str, gateway: Gateway, domain: str) -> AsyncIterator[Rig]:
    async with opened(dsn, gateway.address, ledger_registry(Provider(), domain)) as rig:
        await rig.database.execute(TABLE)
        yield rig


def workflow_of(rig: Rig, domain: str) -> WorkflowVerb:
    return rig.registry.workflows[f"{domain}.settle"]


async def started(rig: Rig, domain: str, verb: str = "book", **changes: object) -> Begun:
    """An instance whose only task is `verb`, with some variables tampered with."""
    workflow = workflow_of(rig, domain)
    await rig.deploy(workflow.process, [f"{domain}.{verb}"])
    data = Account(amount=7, note=SECRET).model_dump(mode="json")
    return await begin(rig.database, rig.engine, workflow, data, changes=changes)


async def assert_incident(rig: Rig, job: Job, begun: Begun, code: str) -> None:
    """The frame says why, the engine raised an incident with a readable message, and nothing else changed."""
    frame = await rig.frame(job)
    (told,) = [failure for failure in rig.engine.failures if failure[0] == job.key]
    head = await payloads.head(rig.database, begun.instance_uid)

    assert (frame.state, frame.fail_class, frame.fail_code) == (FrameState.INCIDENT, "PermanentContract", code)
    assert frame.reported_at is not None
    assert told[1] == 0
    assert told[2].startswith(f"PermanentContract {code}: ")
    assert all(part in told[2] for part in (job.type, str(begun.entry_id), str(job.key)))
    assert SECRET not in told[2]
    assert head.version == 0
    assert await rig.database.fetchrow(EFFECTS) == (0,)
    with pytest.raises(JobNotActive):
        await rig.engine.complete(job.key, NO_RESULT)


async def initial(rig: Rig, domain: str) -> dict[str, Any]:
    data = Account(amount=7, note=SECRET).model_dump(mode="json")
    return (await prepare(rig.database, "rig", workflow_of(rig, domain), data)).variables


@pytest.mark.req("PAY-07", "PAY-08", "TST-02", "PAY-19")
async def test_a_tampered_payload(rig: Rig, domain: str) -> None:
    variables = await initial(rig, domain)
    begun = await started(rig, domain, **{PAYLOAD: variables[PAYLOAD].replace('"amount":7', '"amount":9')})

    job = await rig.work(f"{domain}.book")

    await assert_incident(rig, job, begun, "SealMismatch")


@pytest.mark.req("PAY-02", "PAY-08")
async def test_a_tampered_hash(rig: Rig, domain: str) -> None:
    begun = await started(rig, domain, **{PAYLOAD_HASH: "sha256:" + "0" * 64})

    job = await rig.work(f"{domain}.book")

    await assert_incident(rig, job, begun, "SealMismatch")


@pytest.mark.req("PAY-07")
async def test_a_payload_swapped_with_another_instance_together_with_its_hash(rig: Rig, domain: str) -> None:
    other = await initial(rig, domain)
    begun = await started(rig, domain, **{PAYLOAD: other[PAYLOAD], PAYLOAD_HASH: other[PAYLOAD_HASH]})

    job = await rig.work(f"{domain}.book")

    await assert_incident(rig, job, begun, "PayloadForeign")


@pytest.mark.req("JOB-12", "X-09")
async def test_an_identity_borrowed_from_another_instance(rig: Rig, domain: str) -> None:
    workflow = workflow_of(rig, domain)
    await rig.deploy(workflow.process, [f"{domain}.book"])
    data = Account(amount=7, note=SECRET).model_dump(mode="json")
    lender = await begin(rig.database, rig.engine, workflow, data)
    first = await rig.take(f"{domain}.book")
    await rig.engine.start(Start(workflow.process, first[0].variables))

    job = await rig.work(f"{domain}.book")

    await assert_incident(rig, job, lender, "InstanceMismatch")


@pytest.mark.req("PAY-15", "PAY-19")
async def test_a_truncated_payload(rig: Rig, domain: str) -> None:
    text = (await initial(rig, domain))[PAYLOAD][:-20]
    begun = await started(rig, domain, **{PAYLOAD: text, PAYLOAD_HASH: digest(text.encode())})

    job = await rig.work(f"{domain}.book")

    await assert_incident(rig, job, begun, "PayloadForeign")


@pytest.mark.req("PAY-01", "PAY-15", "PAY-19")
async def test_a_payload_that_became_an_object(rig: Rig, domain: str) -> None:
    text = (await initial(rig, domain))[PAYLOAD]
    begun = await started(rig, domain, **{PAYLOAD: json.loads(text)})

    job = await rig.work(f"{domain}.book")

    await assert_incident(rig, job, begun, "PayloadNotText")


@pytest.mark.req("PAY-09", "PAY-15", "PAY-19")
async def test_a_number_that_became_a_text(rig: Rig, domain: str) -> None:
    workflow = workflow_of(rig, domain)
    await rig.deploy(workflow.process, [f"{domain}.book"])
    begun = await begin(rig.database, rig.engine, workflow, {"amount": "7", "note": SECRET})

    job = await rig.work(f"{domain}.book")

    await assert_incident(rig, job, begun, "CaseInvalid")


@pytest.mark.req("PAY-14")
async def test_a_payload_over_its_budget(rig: Rig, domain: str) -> None:
    generous = replace(workflow_of(rig, domain), budget=500_000)
    await rig.deploy(generous.process, [f"{domain}.book"])
    begun = await begin(rig.database, rig.engine, generous, {"amount": 7, "note": SECRET * 20_000})

    job = await rig.work(f"{domain}.book")

    await assert_incident(rig, job, begun, "PayloadTooLarge")


@pytest.mark.req("PAY-16")
async def test_a_schema_version_this_worker_does_not_know(rig: Rig, domain: str) -> None:
    newer = replace(workflow_of(rig, domain), schema=f"{domain}.settle/v2")
    await rig.deploy(newer.process, [f"{domain}.book"])
    begun = await begin(rig.database, rig.engine, newer, {"amount": 7, "note": SECRET})

    job = await rig.work(f"{domain}.book")

    await assert_incident(rig, job, begun, "SchemaUnknown")


@pytest.mark.req("ORC-09", "ORC-08")
async def test_a_flag_nobody_declared_and_the_effect_is_rolled_back(rig: Rig, domain: str) -> None:
    begun = await started(rig, domain, "invent-flag")

    job = await rig.work(f"{domain}.invent-flag")

    await assert_incident(rig, job, begun, "FlagUndeclared")


@pytest.mark.req("ORC-02", "ORC-09")
async def test_a_flag_of_the_wrong_type_and_the_effect_is_rolled_back(rig: Rig, domain: str) -> None:
    begun = await started(rig, domain, "bend-flag")

    job = await rig.work(f"{domain}.bend-flag")

    await assert_incident(rig, job, begun, "FlagTypeWrong")


@pytest.mark.req("JOB-07", "JOB-08", "JOB-09", "REG-07", "X-05")
async def test_a_sub_verb_that_is_not_on_the_allow_list(dsn: str, gateway: Gateway, domain: str) -> None:
    verbs = ledger_verbs(Provider(), domain)
    verbs.declare(replace(ledger_workflow(verbs, domain), sub_verbs=(f"{domain}.send",)))
    async with opened(dsn, gateway.address, verbs) as rig:
        await rig.database.execute(TABLE)
        begun = await started(rig, domain)

        job = await rig.work(f"{domain}.book")

        await assert_incident(rig, job, begun, "SubVerbForbidden")


@pytest.mark.req("JOB-08", "X-05")
async def test_a_verb_nobody_registered(dsn: str, gateway: Gateway, domain: str) -> None:
    empty = Registry()
    empty.declare(ledger_workflow(ledger_verbs(Provider(), domain), domain))
    async with opened(dsn, gateway.address, empty) as rig:
        await rig.database.execute(TABLE)
        begun = await started(rig, domain)

        job = await rig.work(f"{domain}.book")

        await assert_incident(rig, job, begun, "VerbUnknown")


@pytest.mark.req("REG-13", "NOT-03")
async def test_a_workflow_verb_called_as_a_sub_verb(rig: Rig, domain: str) -> None:
    begun = await started(rig, domain, "settle")

    job = await rig.work(f"{domain}.settle")

    await assert_incident(rig, job, begun, "WorkflowVerbNested")


@pytest.mark.req("JOB-12", "X-09")
async def test_an_instance_nobody_of_us_started(rig: Rig, domain: str) -> None:
    begun = await started(rig, domain, **{INSTANCE_UID: "7a9f0e58-0d1c-4f3d-9a43-000000000000"})

    job = await rig.work(f"{domain}.book")

    frame = await rig.frame(job)
    assert (frame.state, frame.fail_code) == (FrameState.INCIDENT, "InstanceUnknown")
    assert (await payloads.head(rig.database, begun.instance_uid)).version == 0
