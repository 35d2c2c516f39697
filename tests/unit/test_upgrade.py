"""Upgrades: which are accepted, how they chain, and what is said when one is missing."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.boundary_jobs import (
    CLAIM,
    DATA,
    Case,
    entered,
    idle,
    make_content,
    make_head,
    make_registry,
    make_variables,
)
from verbworker.contract.registry import Registry
from verbworker.errors import ContractInvalid, PermanentContract
from verbworker.payload.boundary import leave
from verbworker.payload.envelope import DomainPayload, pack, unpack
from verbworker.payload.upgrade import Upgrade, Upgrades

AT = datetime(2026, 3, 1, tzinfo=UTC)
NAME = "kyc.open-case"


def noting(text: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "trail": [*data.get("trail", []), text]}

    return change


def step(source: int, to: int) -> Upgrade:
    return Upgrade.of(f"{NAME}/v{source}", f"v{to}", noting(f"v{to}"))


def payload(version: int = 1, **data: Any) -> DomainPayload:
    return pack(f"{NAME}/v{version}", data, by="tests", at=AT)


@pytest.mark.req("PAY-16")
def test_a_chain_is_walked_step_by_step() -> None:
    brought = Upgrades([step(2, 3), step(1, 2)]).bring(payload(1), f"{NAME}/v3")

    assert (brought.schema, brought.data) == (f"{NAME}/v3", {"trail": ["v2", "v3"]})
    assert unpack(brought.to_bytes()) == brought


def test_a_step_may_leave_versions_out() -> None:
    brought = Upgrades([step(1, 3)]).bring(payload(1), f"{NAME}/v3")

    assert brought.data == {"trail": ["v3"]}


def test_a_payload_of_the_schema_at_hand_stays_as_it_is() -> None:
    before = payload(3)

    assert Upgrades([step(1, 2)]).bring(before, f"{NAME}/v3") is before


def test_the_trail_and_the_author_of_a_payload_are_kept() -> None:
    before = payload(1).with_step({"a": 1}, verb="kyc.check", at=AT, outcome="ok")

    after = Upgrades([step(1, 2)]).bring(before, f"{NAME}/v2")

    assert (after.sub_verb_trail, after.last_modified_by) == (before.sub_verb_trail, "kyc.check")


def test_an_upgrade_may_change_what_it_is_given() -> None:
    def rename(data: dict[str, Any]) -> dict[str, Any]:
        data["person"]["called"] = data["person"].pop("name")
        return data

    before = payload(1, person={"name": "Ada"})
    after = Upgrades([Upgrade.of(f"{NAME}/v1", "v2", rename)]).bring(before, f"{NAME}/v2")

    assert (before.data, after.data) == ({"person": {"name": "Ada"}}, {"person": {"called": "Ada"}})


@pytest.mark.req("PAY-16")
@pytest.mark.parametrize(
    ("steps", "version", "code", "words"),
    [
        ([], 1, "SchemaUnsupported", "no upgrade of kyc.open-case/v1"),
        ([step(1, 2)], 1, "SchemaUnsupported", "no upgrade of kyc.open-case/v2"),
        ([step(1, 4)], 1, "SchemaUnsupported", "no upgrade of kyc.open-case/v1"),
        ([step(1, 2)], 4, "SchemaUnknown", "'kyc.open-case/v4'"),
    ],
)
def test_a_payload_nobody_can_bring_up_is_a_contract_failure_that_says_so(
    steps: list[Upgrade], version: int, code: str, words: str
) -> None:
    with pytest.raises(PermanentContract, match=re.escape(words)) as failure:
        Upgrades(steps).bring(payload(version), f"{NAME}/v3")

    assert failure.value.code == code


def test_a_payload_of_another_verb_is_not_brought_up() -> None:
    foreign = pack("kyc.close-case/v1", {}, by="tests", at=AT)

    with pytest.raises(PermanentContract) as failure:
        Upgrades([step(1, 2)]).bring(foreign, f"{NAME}/v2")

    assert failure.value.code == "SchemaUnknown"


def test_an_upgrade_that_raises_is_a_contract_failure_without_its_words() -> None:
    def stumble(data: dict[str, Any]) -> dict[str, Any]:
        raise KeyError("a secret name")

    with pytest.raises(PermanentContract, match="raised KeyError") as failure:
        Upgrades([Upgrade.of(f"{NAME}/v1", "v2", stumble)]).bring(payload(1), f"{NAME}/v2")

    assert (failure.value.code, "secret" in str(failure.value)) == ("UpgradeFailed", False)


def test_an_upgrade_that_answers_no_object_is_a_contract_failure() -> None:
    broken: Any = lambda data: ["no", "object"]  # noqa: E731  # a mistake an author may make

    with pytest.raises(PermanentContract) as failure:
        Upgrades([Upgrade.of(f"{NAME}/v1", "v2", broken)]).bring(payload(1), f"{NAME}/v2")

    assert failure.value.code == "DataNotObject"


async def asynchronous(data: dict[str, Any]) -> dict[str, Any]:
    return data


@pytest.mark.parametrize(
    ("source", "to", "change", "words"),
    [
        ("kyc.open-case", "v2", noting(""), "write it as"),
        ("kyc.open-case/1", "v2", noting(""), "write it as"),
        ("kyc.open-case/v1", "2", noting(""), "write it as"),
        ("kyc.open-case/v1", "kyc.open-case/v2", noting(""), "write it as"),
        ("kyc.open-case/v2", "v2", noting(""), "never taken back"),
        ("kyc.open-case/v2", "v1", noting(""), "never taken back"),
        ("kyc.open-case/v1", "v2", asynchronous, "is async"),
    ],
)
def test_an_upgrade_that_cannot_be_meant_is_refused(source: str, to: str, change: Any, words: str) -> None:
    with pytest.raises(ContractInvalid, match=words):
        Registry().upgrade(source, to=to)(change)


def test_the_decorator_leaves_the_function_as_it_is() -> None:
    change = noting("x")

    assert Registry().upgrade(f"{NAME}/v1", to="v2")(change) is change


def test_two_upgrades_of_one_schema_are_refused() -> None:
    verbs = Registry()
    verbs.upgrade(f"{NAME}/v1", to="v2")(noting("a"))

    with pytest.raises(ContractInvalid, match="two upgrades of"):
        verbs.upgrade(f"{NAME}/v1", to="v3")(noting("b"))


def test_registries_are_merged_with_their_upgrades() -> None:
    verbs = make_registry(schema=f"{NAME}/v2")
    others = Registry()
    others.upgrade(f"{NAME}/v1", to="v2")(noting("a"))

    assert [each.source for each in Registry.of(verbs, others).check().upgrades] == [f"{NAME}/v1"]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([Upgrade.of("kyc.unheard/v1", "v2", noting(""))], "belongs to no workflow verb"),
        ([step(1, 2)], "data of kyc.open-case/v2 can become no kyc.open-case/v4"),
        ([step(1, 2), step(3, 4)], "data of kyc.open-case/v2 can become no kyc.open-case/v4"),
        ([step(1, 5)], "leads to v5, but the verb has kyc.open-case/v4"),
    ],
)
def test_upgrades_that_lead_nowhere_are_refused_when_a_registry_is_checked(steps: list[Upgrade], words: str) -> None:
    registry = make_registry(schema=f"{NAME}/v4").declare(upgrades=steps)

    with pytest.raises(ContractInvalid, match=words):
        registry.check()


def test_a_workflow_verb_whose_schema_is_none_is_refused() -> None:
    with pytest.raises(ContractInvalid, match="'kyc' is not a schema"):
        make_registry(schema="kyc").check()


def test_a_whole_chain_passes_the_check() -> None:
    registry = make_registry(schema=f"{NAME}/v4").declare(upgrades=[step(1, 2), step(2, 4), step(3, 4)])

    assert registry.check() is registry


def halved(data: dict[str, Any]) -> dict[str, Any]:
    """What v2 means by an amount: half of what v1 meant."""
    return {**data, "amount": data["amount"] // 2}


def renewed() -> Registry:
    registry = make_registry(idle, schema=f"{NAME}/v2")
    registry.upgrade(f"{NAME}/v1", to="v2")(halved)
    return registry.check()


@pytest.mark.req("PAY-16", "PAY-09")
def test_a_verb_sees_the_case_under_the_schema_of_now_and_the_payload_leaves_with_it() -> None:
    job = entered(renewed())

    completed = leave(job, Case(amount=4))

    assert job.case == Case.model_validate({**DATA, "amount": 3})
    after = unpack(completed.payload)
    assert (after.schema, after.data["amount"], after.data["stranger"]) == (f"{NAME}/v2", 4, [1, 2])


@pytest.mark.parametrize("schema", [f"{NAME}/v1", f"{NAME}/v2"])
def test_changes_are_merged_onto_a_head_of_either_schema(schema: str) -> None:
    job = entered(renewed())
    amount = 7 if schema.endswith("v1") else 3
    head = make_content({**DATA, "amount": amount, "note": "from a branch"}, schema)

    after = unpack(leave(job, job.case.model_copy(update={"amount": 9}), head=make_head(head)).payload)

    assert (after.schema, after.data["amount"], after.data["note"]) == (f"{NAME}/v2", 9, "from a branch")


def test_a_head_that_is_newer_than_the_engine_carried_is_brought_up_too() -> None:
    job = entered(renewed(), head=make_head(make_content({**DATA, "amount": 20})))

    assert (job.case, job.payload.schema) == (Case.model_validate({**DATA, "amount": 10}), f"{NAME}/v2")


def test_without_an_upgrade_a_job_of_an_older_schema_is_refused() -> None:
    with pytest.raises(PermanentContract) as failure:
        entered(make_registry(schema=f"{NAME}/v2"), claim=CLAIM, variables=make_variables())

    assert failure.value.code == "SchemaUnsupported"
