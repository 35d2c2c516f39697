"""Flags that were changed in the engine: each is an incident that names it, before a verb or a wait follows it."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.conformance.test_completion import set_variables
from tests.support import case_models as models
from tests.support.case_setup import COMPLETE, PARK, Case, CaseSetup, case_setup
from tests.support.engines import Gateway
from tests.support.flags import flag_contract
from tests.support.hands import transaction_by_hand
from tests.support.kyc_people import resolve_incident
from verblint.contracts.contract import Argument, Flag, FlagType
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.runbook.event import Kind
from verbworker.stores.cases import payloads
from verbworker.stores.cases.overview import Overview
from verbworker.work.upkeep.resolutions import Resolution, Resolutions

pytestmark = pytest.mark.attack("payload")

ON = ("embedded", "zeebe")
ALSO_ON = ("zeebe-rest",)

WRITTEN: dict[str, object] = {"orch_first": True, "orch_kind": "a", "orch_count": 2, "orch_note": "hello"}
"""What the first step sets; the case starts with false, "none", 0 and "", and `orch_never` stays false."""

FORGED: dict[str, tuple[str, object]] = {
    "a boolean": ("orch_never", True),
    "an enum": ("orch_kind", "b"),
    "an enum beyond its values": ("orch_kind", "evil"),
    "an integer": ("orch_count", 3),
    "an integer below zero": ("orch_count", -2),
    "a text": ("orch_note", "PT0S"),
    "a text with another case": ("orch_note", "Hello"),
    "a text with a blank": ("orch_note", "hello "),
    "a boolean as an integer": ("orch_first", 1),
    "a boolean as a text": ("orch_first", "true"),
    "an integer as a boolean": ("orch_count", True),
    "an integer as a text": ("orch_count", "2"),
    "an integer as a fraction": ("orch_count", 2.5),
    "a text as a list": ("orch_note", ["hello"]),
    "an enum as an object": ("orch_kind", {"a": 1}),
    "null": ("orch_first", None),
    "one that the case never had": ("orch_other", True),
}


def registry_of(domain: str) -> Registry:
    """Two steps: the first sets flags of every type. Another workflow verb has a flag more."""
    verbs = Registry()

    @verbs.verb(f"{domain}.first", mode="transactional", writes=("first",))
    async def first(case: Case, call: Call) -> Result[Case]:
        """Write one field and every flag but one."""
        return Result(case.model_copy(update={"first": "done"}), flags=WRITTEN)

    @verbs.verb(f"{domain}.second", mode="transactional", writes=("second",))
    async def second(case: Case) -> Case:
        """Write the other field."""
        return case.model_copy(update={"second": "done"})

    flags = flag_contract(
        Flag("orch_first", FlagType.BOOLEAN, False),
        Flag("orch_never", FlagType.BOOLEAN, False),
        Flag("orch_kind", FlagType.ENUM, "none", ("none", "a", "b")),
        Flag("orch_count", FlagType.INTEGER, 0),
        Flag("orch_note", FlagType.STRING, ""),
    )
    shared: dict[str, Any] = {
        "version": 1,
        "args": {"name": Argument(type="string", required=True)},
        "initial": {"name": "args.name"},
        "correlation": {"corr_case": "${args.name}"},
        "messages": {f"{domain}-letter": "corr_case"},
        "sub_verbs": (f"{domain}.first", f"{domain}.second"),
    }
    others = flag_contract(*flags.flags.values(), Flag("orch_other", FlagType.BOOLEAN, False))
    return verbs.declare(
        WorkflowVerb(
            name=f"{domain}.case",
            process=f"{domain}-case",
            schema=f"{domain}.case/v1",
            flag_contract=flags,
            **shared,
        ),
        WorkflowVerb(
            name=f"{domain}.other",
            process=f"{domain}-other",
            schema=f"{domain}.other/v1",
            flag_contract=others,
            **shared,
        ),
    )


@pytest.fixture
async def setup(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    domain = unique("forged")
    async with case_setup(dsn, gateway.address, domain, registry_of(domain)) as setup:
        yield setup


async def started(setup: CaseSetup, draw: Callable[..., bytes] = models.line, *verbs: str, **options: Any) -> UUID:
    """A case whose first step is done."""
    line = verbs or ("first", "second")
    entry_id = await setup.start(draw, *(line if draw is models.line else ()), **options)
    await setup.serve("first")
    return entry_id


async def version(setup: CaseSetup, entry_id: UUID) -> int:
    """Which version the payload of record has: whether a step was done."""
    return (await payloads.head(setup.database, await setup.uid(entry_id))).version


async def expect_incident(setup: CaseSetup, entry_id: UUID, name: str, value: object) -> None:
    """One refusal that names the flag and what it was, but not what it became; nothing was done."""
    (raised,) = await setup.events(entry_id, Kind.INCIDENT_RAISED)
    was = json.dumps(({"orch_never": False} | WRITTEN).get(name))
    expected = "never had it" if name == "orch_other" else f"it was {was}"
    assert raised.detail["code"] == "FlagForeign"
    assert name in raised.detail["text"]
    assert expected in raised.detail["text"]
    assert "evil" not in raised.detail["text"]
    assert "PT0S" not in raised.detail["text"]
    (_, retries, message) = setup.engine.failures[-1]
    assert (retries, "FlagForeign" in message) == (0, True)
    assert (await setup.status(entry_id), await version(setup, entry_id)) == ("parked", 1)


@pytest.mark.parametrize(("name", "value"), FORGED.values(), ids=FORGED)
async def test_a_forged_flag_stops_the_next_step(setup: CaseSetup, name: str, value: object) -> None:
    entry_id = await started(setup)
    await set_variables(setup, await setup.instance_key(entry_id), {name: value})

    await setup.serve("second")

    await expect_incident(setup, entry_id, name, value)


@pytest.mark.parametrize(("name", "value"), FORGED.values(), ids=FORGED)
async def test_a_forged_flag_that_no_step_sees_stops_the_end(setup: CaseSetup, name: str, value: object) -> None:
    entry_id = await started(setup, models.line, "first")
    await set_variables(setup, await setup.instance_key(entry_id), {name: value})

    await setup.serve(COMPLETE)

    await expect_incident(setup, entry_id, name, value)


@pytest.mark.parametrize(("name", "value"), [FORGED["a text"], FORGED["an enum"]])
async def test_a_forged_text_stops_before_a_timer_may_wait_for_it(setup: CaseSetup, name: str, value: object) -> None:
    entry_id = await started(setup, models.waits_for, event=models.TIMER)
    await set_variables(setup, await setup.instance_key(entry_id), {name: value})

    await setup.serve(PARK)

    await expect_incident(setup, entry_id, name, value)


@pytest.mark.parametrize(("name", "value"), [("orch_first", False), ("orch_kind", "none"), ("orch_count", 0)])
async def test_a_value_that_the_case_had_before_is_followed_and_told(
    setup: CaseSetup, name: str, value: object
) -> None:
    entry_id = await started(setup)
    await set_variables(setup, await setup.instance_key(entry_id), {name: value})

    job = await setup.serve("second")
    await setup.serve(COMPLETE)

    told = await setup.database.fetch(
        "SELECT detail FROM verbworker.frame_event WHERE job_key = $1 AND kind = 'older flags'", job.key
    )
    (result,) = await setup.events(entry_id, Kind.RESULT)
    assert [row["detail"] for row in told] == [name]
    assert await setup.status(entry_id) == "completed"
    assert result.detail["flags"] == {"orch_never": False} | WRITTEN


async def test_a_case_whose_flags_are_its_own_is_not_disturbed(setup: CaseSetup) -> None:
    entry_id = await started(setup)

    await setup.serve("second", COMPLETE)

    assert (await setup.status(entry_id), setup.engine.failures) == ("completed", [])


async def test_a_branch_that_was_handed_out_before_its_sibling_wrote_brings_older_flags(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.forks)
    second = await setup.take("second")
    await setup.serve("first")
    await setup.deliver(second)

    await setup.serve(COMPLETE)

    assert (await setup.status(entry_id), setup.engine.failures) == ("completed", [])


@pytest.mark.parametrize("agreed", [False, True])
async def test_a_person_sets_the_flag_and_the_case_goes_on(setup: CaseSetup, agreed: bool) -> None:
    entry_id = await started(setup)
    await set_variables(setup, await setup.instance_key(entry_id), {"orch_never": True})
    await setup.serve("second")
    tenant = (await setup.entry(entry_id)).tenant_id
    (trouble,) = await Overview(setup.database).troubles(tenant, without_entry=False)
    wanted = Resolution("ada", "it was changed in Operate", flags={"orch_never": agreed})

    answer = await Resolutions(setup.database, setup.engine, owner=uuid4()).resolve(trouble, wanted)
    if isinstance(setup.engine, ZeebeEngine):  # a broker without a search: an operator resolves it in Operate
        assert "resolve its incident in the engine" in answer.sentence
        assert trouble.job_key is not None
        await resolve_incident(setup.engine, trouble.job_key)
    await setup.serve("second", COMPLETE)

    (result,) = await setup.events(entry_id, Kind.RESULT)
    assert (answer.done, await setup.status(entry_id)) == (True, "completed")
    assert result.detail["flags"] == {"orch_never": agreed} | WRITTEN


async def test_a_value_that_only_a_person_set_is_one_that_the_case_had(setup: CaseSetup) -> None:
    entry_id = await started(setup)
    uid, engine_id = await setup.uid(entry_id), setup.engine.engine_id
    key = await setup.instance_key(entry_id)
    await setup.runbook.append(entry_id, Kind.RESOLVE_REQUESTED, once="1", detail={"flags": {"orch_count": 7}})
    for count in (7, 8):
        await payloads.set_flags(setup.database, engine_id, key, {"orch_count": count})

    unknown = await payloads.unknown_flags(setup.database, uid, {"orch_count": 7, "orch_kind": "b"})

    assert unknown == {"orch_kind"}


async def test_a_case_of_an_older_release_is_not_compared(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first")
    uid = await setup.uid(entry_id)
    async with transaction_by_hand(setup.database) as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("UPDATE verbworker.payload_head SET flags = NULL WHERE instance_uid = $1", uid)
    await set_variables(setup, await setup.instance_key(entry_id), {"orch_never": True})

    await setup.serve("first", COMPLETE)

    assert (await setup.status(entry_id), setup.engine.failures) == ("completed", [])


async def test_a_flag_that_was_taken_out_of_the_engine_is_missed(setup: CaseSetup, gateway: Gateway, dsn: str) -> None:
    if gateway.address != dsn:
        pytest.skip("a broker has no command that removes a variable")
    entry_id = await started(setup)
    await setup.database.execute(
        "UPDATE verbworker_engine.instance"
        " SET variables = convert_to((convert_from(variables, 'UTF8')::jsonb - $2)::text, 'UTF8')"
        " WHERE instance_key = $1",
        await setup.instance_key(entry_id),
        "orch_kind",
    )

    await setup.serve("second")

    await expect_incident(setup, entry_id, "orch_kind", None)
