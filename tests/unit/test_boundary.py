"""The two crossings: what must hold before a verb sees the case, and before its answer leaves."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, Field, computed_field

from tests.support.boundary_jobs import (
    CLAIM,
    DATA,
    ENTRY,
    INSTANCE,
    NOW,
    UID,
    Case,
    Person,
    entered,
    make_content,
    make_head,
    make_registry,
    make_variables,
    sealed,
)
from tests.support.frames import make_job
from verblint.contracts.templates import parse
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Result
from verbworker.engine.variables import variables_of
from verbworker.errors import Failure, PayloadIntegrityError, PermanentContract
from verbworker.job.job import ENTRY_ID, INSTANCE_UID, PAYLOAD, PAYLOAD_HASH, TENANT_ID
from verbworker.job.outcome import JobResult
from verbworker.model.start_variables import begin
from verbworker.payload.boundary import JobVariables, afresh, leave, overtaken
from verbworker.payload.signature import KeyRing, Seal
from verbworker.profile.mapping import IoMapping
from verbworker.profile.task_profile import TaskProfile

RING = KeyRing("k1", {"k1": b"s" * 32})
SECRET = "iban DE89 3704"


def writing(*fields: str) -> Registry:
    """A verb that may change these fields and no others."""
    return make_registry(options={"writes": fields})


def data_of(completed: JobResult) -> dict[str, Any]:
    return dict(json.loads(completed.payload)["data"])


# ---- reserved: read without judging ---------------------------------------------------------------------------------


@pytest.mark.req("JOB-12")
def test_reserved_variables_are_read_as_they_come() -> None:
    reserved = JobVariables.of(make_job(variables=make_variables()))

    assert (reserved.instance_uid, reserved.entry_id, reserved.tenant_id) == (UID, ENTRY, "t1")
    assert reserved.content == make_content()
    assert reserved.hash.hex() == str(reserved.seal).removeprefix("sha256:")


@pytest.mark.req("JOB-12")
@pytest.mark.parametrize("odd", [None, 7, True, ["x"], {"a": 1}, "no uuid", "\ud800"])
def test_reserved_variables_that_are_odd_are_left_for_the_boundary_to_refuse(odd: object) -> None:
    names = (PAYLOAD, PAYLOAD_HASH, INSTANCE_UID, ENTRY_ID, TENANT_ID)
    reserved = JobVariables.of(make_job(variables=dict.fromkeys(names, odd)))

    assert (reserved.instance_uid, reserved.entry_id) == (None, None)
    assert reserved.content == (odd.encode("utf-8", "surrogatepass") if isinstance(odd, str) else b"")


# ---- in ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("PAY-09", "JOB-07")
def test_a_job_that_keeps_its_promises_enters() -> None:
    job = entered()

    assert isinstance(job.case, Case)
    assert (job.case.amount, job.case.person) == (7, Person(name="Ada"))
    assert (job.verb.name, job.workflow.name, job.at) == ("kyc.check", "kyc.open-case", NOW)
    assert "sha256:" + job.input_hash.hex() == job.job.variables[PAYLOAD_HASH]


@pytest.mark.req("JOB-20", "PAY-03")
def test_what_the_engine_computed_beside_the_payload_is_not_what_the_verb_sees() -> None:
    computed = {"amount": 999, "note": "from a mapping", "person": {"name": "Eve"}}
    job = entered(variables=make_variables(changes=computed))

    assert isinstance(job.case, Case)
    assert (job.case.amount, job.case.note, job.case.person) == (7, "", Person(name="Ada"))


@pytest.mark.req("JOB-16")
def test_the_same_delivery_takes_the_same_way_to_the_same_bytes() -> None:
    first, second = (
        leave(entered(), Result(Case.model_validate({**DATA, "note": "seen"}), {"orch_done": True})) for _ in range(2)
    )

    assert first == second
    assert entered().verb.name == entered().verb.name == "kyc.check"


@pytest.mark.req("REG-11")
def test_a_verb_that_undoes_may_be_called_too() -> None:
    assert entered(type="kyc.undo").verb.name == "kyc.undo"


def test_an_instance_nobody_pinned_yet_enters() -> None:
    claim = replace(CLAIM, instance=replace(INSTANCE, instance_key=None))

    assert entered(claim=claim).instance.instance_key is None


def test_a_newer_payload_of_record_is_what_the_verb_sees() -> None:
    head = make_content({**DATA, "amount": 8})
    job = entered(head=make_head(head))

    assert isinstance(job.case, Case)
    assert job.case.amount == 8
    assert job.base_hash.hex() == sealed(head).removeprefix("sha256:")


def test_a_signed_payload_enters_with_the_right_ring() -> None:
    content = make_content()
    variables = make_variables(content, {PAYLOAD_HASH: sealed(content, Seal.from_ring(RING))})

    assert entered(make_registry(integrity="signed"), ring=RING, variables=variables).payload.data == DATA


OTHER_UID = "33333333-3333-3333-3333-333333333333"
TAMPERED = make_content({**DATA, "amount": 8}).decode()
REFUSED_VARIABLES: list[tuple[str, dict[str, object]]] = [
    ("InstanceUnknown", {INSTANCE_UID: None}),
    ("EntryMismatch", {ENTRY_ID: OTHER_UID}),
    ("EntryMismatch", {ENTRY_ID: 7}),
    ("TenantMismatch", {TENANT_ID: "t2"}),
    ("PayloadNotText", {PAYLOAD: None}),
    ("PayloadNotText", {PAYLOAD: {"coerced": True}}),
    ("LoneSurrogate", {PAYLOAD: "\ud800"}),
    ("SealMismatch", {PAYLOAD: TAMPERED}),
    ("SealMismatch", {PAYLOAD: make_content().decode()[:-1]}),
    ("SealMismatch", {PAYLOAD_HASH: "sha256:" + "0" * 64}),
    ("SealMalformed", {PAYLOAD_HASH: None}),
]


@pytest.mark.req("PAY-07", "PAY-08", "JOB-12")
@pytest.mark.parametrize(("code", "changes"), REFUSED_VARIABLES)
def test_variables_that_were_changed_are_refused(code: str, changes: dict[str, object]) -> None:
    with pytest.raises(PermanentContract) as caught:
        entered(variables=make_variables(changes=changes))

    assert caught.value.code == code


@pytest.mark.req("JOB-08", "JOB-09", "REG-07", "REG-13")
@pytest.mark.parametrize(
    ("code", "job"),
    [
        ("VerbUnknown", {"type": "kyc.gone"}),
        ("WorkflowVerbNested", {"type": "kyc.open-case"}),
        ("SubVerbForbidden", {"type": "kyc.forbidden"}),
        ("ProcessUnknown", {"process_id": "other"}),
        ("InstanceMismatch", {"process_instance_key": 9001}),
    ],
)
def test_a_job_that_may_not_be_is_refused(code: str, job: dict[str, Any]) -> None:
    with pytest.raises(PermanentContract) as caught:
        entered(**job)

    assert caught.value.code == code


def test_an_instance_of_a_workflow_verb_nobody_knows_is_refused() -> None:
    with pytest.raises(PermanentContract) as caught:
        entered(claim=replace(CLAIM, instance=replace(INSTANCE, verb="kyc.gone")))

    assert caught.value.code == "ProcessUnknown"


@pytest.mark.req("CMP-08")
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_job_of_an_entry_that_has_ended_is_refused(status: str) -> None:
    with pytest.raises(PermanentContract, match=status) as caught:
        entered(claim=replace(CLAIM, instance=replace(INSTANCE, status=status)))

    assert caught.value.code == "InstanceEnded"


def test_an_instance_the_database_does_not_know_is_refused() -> None:
    with pytest.raises(PermanentContract) as caught:
        entered(claim=replace(CLAIM, instance=None))

    assert caught.value.code == "InstanceUnknown"


@pytest.mark.req("PAY-08")
def test_a_payload_this_instance_never_had_is_refused_though_its_hash_fits() -> None:
    with pytest.raises(PayloadIntegrityError) as caught:
        entered(claim=replace(CLAIM, input_version=None))

    assert caught.value.code == "PayloadForeign"


def test_a_signed_payload_without_a_ring_is_refused() -> None:
    with pytest.raises(PermanentContract) as caught:
        entered(make_registry(integrity="signed"))

    assert caught.value.code == "KeyRingMissing"


@pytest.mark.req("PAY-16")
def test_a_payload_of_an_unknown_schema_version_is_refused() -> None:
    with pytest.raises(PermanentContract) as caught:
        entered(variables=make_variables(make_content(schema="kyc.open-case/v2")))

    assert caught.value.code == "SchemaUnknown"


@pytest.mark.req("PAY-14")
def test_a_payload_over_its_budget_is_refused() -> None:
    with pytest.raises(PermanentContract) as caught:
        entered(make_registry(budget=100))

    assert caught.value.code == "PayloadTooLarge"


@pytest.mark.req("PAY-09", "PAY-15", "FAIL-04")
@pytest.mark.parametrize(
    "wrong",
    [{"amount": SECRET}, {"amount": "7"}, {"amount": -7}, {}, {"amount": 7, "person": {"nom": SECRET}}],
)
def test_a_case_that_does_not_fit_is_refused_without_showing_it(wrong: dict[str, Any]) -> None:
    with pytest.raises(PermanentContract) as caught:
        entered(variables=make_variables(make_content(wrong)))

    assert caught.value.code == "CaseInvalid"
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


# ---- out -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("PAY-10", "PAY-11", "PAY-18", "ORC-07", "ORC-08", "NOT-01")
def test_an_answer_leaves_as_payload_hash_flags_and_keys_and_nothing_else() -> None:
    job = entered()
    changed = Case.model_validate({**DATA, "note": "seen"})
    completed = leave(job, Result(changed, {"orch_done": True}, {"corr_other": "o-1"}, outcome="asked"))
    envelope = json.loads(completed.payload)

    assert variables_of(completed) == {
        PAYLOAD: completed.payload.decode(),
        PAYLOAD_HASH: sealed(completed.payload),
        "orch_done": True,
        "corr_other": "o-1",
    }
    assert envelope["sub_verb_trail"] == [{"at": "2026-03-01T12:00:00Z", "outcome": "asked", "verb": "kyc.check"}]
    assert envelope["last_modified_by"] == "kyc.check"
    assert envelope["data"] == {**DATA, "note": "seen"}


def test_a_bare_model_is_an_answer() -> None:
    completed = leave(entered(), Case(amount=8, person=Person(name="Ada")))

    assert data_of(completed)["amount"] == 8
    assert (completed.flags, completed.correlation) == ({}, {})


@pytest.mark.req("PAY-15")
def test_fields_outside_the_verbs_model_survive() -> None:
    job = entered()
    completed = leave(job, Case(amount=8, person=Person(name="Grace")))

    assert data_of(completed) == {**DATA, "amount": 8, "person": {"name": "Grace", "born": "1815"}}


def test_defaults_the_payload_never_had_are_not_written() -> None:
    job = entered(variables=make_variables(make_content({"amount": 7})))

    assert data_of(leave(job, job.case)) == {"amount": 7}


def test_a_case_changed_in_place_is_a_change() -> None:
    job = entered(writing("tags"))
    assert isinstance(job.case, Case)
    job.case.tags.append("new")

    assert data_of(leave(job, job.case))["tags"] == ["new"]


def test_a_case_changed_in_place_is_held_to_its_writes() -> None:
    job = entered(writing("tags"))
    assert isinstance(job.case, Case)
    job.case.note = "changed"

    with pytest.raises(PermanentContract) as caught:
        leave(job, job.case)

    assert caught.value.code == "WriteUndeclared"


def test_a_second_run_gets_the_case_as_it_was() -> None:
    first = entered()
    assert isinstance(first.case, Case)
    first.case.amount += 1
    second = afresh(first)
    assert isinstance(second.case, Case)
    second.case.amount += 1

    assert data_of(leave(second, second.case))["amount"] == 8


class Stamped(BaseModel):
    stamp: UUID = Field(default_factory=uuid4)


def test_a_default_made_anew_for_a_second_run_is_no_change() -> None:
    async def stamp(case: Stamped) -> None: ...

    job = entered(make_registry(stamp), variables=make_variables(make_content({})))
    again = afresh(job)

    assert data_of(leave(again, again.case)) == {}


@pytest.mark.req("X-41")
@pytest.mark.parametrize(
    ("writes", "changes", "allowed"),
    [
        (None, {"amount": 8, "note": "n"}, True),
        ((), {}, True),
        ((), {"note": "n"}, False),
        (("note",), {"note": "n"}, True),
        (("note",), {"note": "n", "amount": 8}, False),
        (("person",), {"person": {"name": "Grace"}}, True),
        (("person.name",), {"person": {"name": "Grace"}}, True),
        (("person.born",), {"person": {"name": "Grace"}}, False),
        (("person",), {"person": None}, True),
    ],
)
def test_declared_writes_are_enforced(writes: Any, changes: dict[str, Any], allowed: bool) -> None:
    job = entered(make_registry(options={"writes": writes}))
    answer = Case.model_validate({**DATA, **changes})

    try:
        leave(job, answer)
        code = ""
    except PermanentContract as error:
        code = error.code

    assert code == ("" if allowed else "WriteUndeclared")


@pytest.mark.req("ORC-03", "ORC-09")
@pytest.mark.parametrize(
    ("flags", "code"),
    [({"orch_invented": True}, "FlagUndeclared"), ({"orch_done": "yes"}, "FlagTypeWrong")],
)
def test_flags_outside_the_contract_are_refused(flags: dict[str, object], code: str) -> None:
    job = entered()

    with pytest.raises(PermanentContract) as caught:
        leave(job, Result(job.case, flags))

    assert caught.value.code == code


@pytest.mark.req("MSG-02")
@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"corr_case": "c-2"}, "CorrelationChanged"),
        ({"corr_undeclared": "x"}, "CorrelationUndeclared"),
        ({"case": "x"}, "CorrelationName"),
        ({"corr_other": 7}, "CorrelationType"),
    ],
)
def test_correlation_keys_are_declared_and_written_once(keys: Any, code: str) -> None:
    job = entered()

    with pytest.raises(PermanentContract) as caught:
        leave(job, Result(job.case, correlation=keys))

    assert caught.value.code == code


def test_writing_a_correlation_key_again_as_it_is_changes_nothing() -> None:
    job = entered()

    assert leave(job, Result(job.case, correlation={"corr_case": "c-1"})).correlation == {"corr_case": "c-1"}


def test_a_key_another_branch_wrote_meanwhile_cannot_change() -> None:
    job = overtaken(entered(), {"corr_case": "c-1", "corr_other": "theirs"})

    with pytest.raises(PermanentContract) as caught:
        leave(job, Result(job.case, correlation={"corr_other": "ours"}))

    assert caught.value.code == "CorrelationChanged"


class Elsewhere(BaseModel):
    amount: int = 0


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"amount": 7},
        Elsewhere(),
        Result(None),  # type: ignore[type-var]
        Result({"amount": 7}),  # type: ignore[type-var]
        Result(Elsewhere()),
        Result(Case(amount=7), flags=None),  # type: ignore[arg-type]
        Result(Case(amount=7), correlation=["corr_case"]),  # type: ignore[arg-type]
    ],
)
def test_an_answer_of_another_kind_is_refused(answer: object) -> None:
    with pytest.raises(PermanentContract) as caught:
        leave(entered(), answer)

    assert caught.value.code == "AnswerInvalid"


@pytest.mark.req("PAY-15", "REG-23", "FAIL-04")
@pytest.mark.parametrize(
    "wrong",
    [{"amount": SECRET}, {"amount": "7"}, {"amount": -7}, {"amount": {SECRET}}, {"amount": object()}],
)
def test_an_answer_that_breaks_its_own_model_is_refused_without_showing_it(wrong: dict[str, Any]) -> None:
    job = entered()

    with pytest.raises(Failure) as caught:
        leave(job, job.case.model_copy(update=wrong))

    assert (type(caught.value), caught.value.code) == (PermanentContract, "AnswerInvalid")
    assert SECRET not in str(caught.value)


def test_an_outcome_that_fits_no_trail_is_refused() -> None:
    job = entered()

    with pytest.raises(PermanentContract) as caught:
        leave(job, Result(job.case, outcome="two\nlines"))

    assert caught.value.code == "EnvelopeInvalid"


@pytest.mark.req("PAY-14")
def test_an_answer_over_its_budget_is_refused_before_it_is_stored() -> None:
    job = entered()

    with pytest.raises(PermanentContract) as caught:
        leave(job, job.case.model_copy(update={"note": "x" * 70_000}))

    assert caught.value.code == "PayloadTooLarge"


class Named(BaseModel):
    first: str = ""

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know decorated properties
    @property
    def greeting(self) -> str:
        return f"Dear {self.first}"


def test_what_a_model_computes_is_no_part_of_the_payload() -> None:
    async def rename(named: Named) -> None: ...

    registry = make_registry(rename, options={"writes": ("first",)})
    job = entered(registry, variables=make_variables(make_content({"first": "Ada"})))

    assert data_of(leave(job, Named(first="Grace"))) == {"first": "Grace"}


class Aliased(BaseModel):
    amount: int = Field(alias="Amount")


def test_a_field_is_stored_under_its_alias() -> None:
    async def raise_amount(aliased: Aliased) -> None: ...

    registry = make_registry(raise_amount, options={"writes": ("Amount",)})
    job = entered(registry, variables=make_variables(make_content({"Amount": 7})))

    assert data_of(leave(job, Aliased(Amount=8))) == {"Amount": 8}


# ---- onto another branch's version ---------------------------------------------------------------------------------


@pytest.mark.req("X-41", "PAY-10")
def test_changes_of_two_branches_both_survive() -> None:
    job = entered()
    head = make_content({**DATA, "note": "theirs"})
    completed = leave(job, job.case.model_copy(update={"amount": 8}), head=make_head(head))

    assert data_of(completed) == {**DATA, "amount": 8, "note": "theirs"}


@pytest.mark.req("X-41")
def test_the_same_field_changed_by_two_branches_is_refused() -> None:
    job = entered()
    head = make_head(make_content({**DATA, "note": "theirs"}))

    with pytest.raises(PermanentContract) as caught:
        leave(job, job.case.model_copy(update={"note": "ours"}), head=head)

    assert caught.value.code == "MergeConflict"


@pytest.mark.req("X-41")
def test_a_merged_payload_is_sealed_anew_for_its_instance() -> None:
    content = make_content()
    variables = make_variables(content, {PAYLOAD_HASH: sealed(content, Seal.from_ring(RING))})
    job = entered(make_registry(integrity="signed"), ring=RING, variables=variables)
    head = make_head(make_content({**DATA, "note": "theirs"}), Seal.from_ring(RING), version=4)
    completed = leave(job, Case(amount=8), head=head)

    assert completed.seal == sealed(completed.payload, Seal.from_ring(RING), version=5)


@pytest.mark.req("PAY-08")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"seal": None}, "HeadUnsigned"),
        ({"seal": sealed(make_content())}, "SealUnsigned"),
        ({"version": 5}, "SealVersion"),
        ({"content": make_content({**DATA, "note": "forged"})}, "SealMismatch"),
    ],
)
def test_a_head_that_its_signature_does_not_prove_is_merged_onto_by_nobody(changes: dict[str, Any], code: str) -> None:
    content, signed = make_content(), Seal.from_ring(RING)
    variables = make_variables(content, {PAYLOAD_HASH: sealed(content, signed)})
    registry = make_registry(integrity="signed")
    head = replace(make_head(make_content({**DATA, "note": "theirs"}), signed, version=4), **changes)

    with pytest.raises(PermanentContract) as merged:
        leave(entered(registry, ring=RING, variables=variables), Case(amount=8), head=head)
    with pytest.raises(PermanentContract) as opened:
        entered(registry, ring=RING, variables=variables, head=head)

    assert (merged.value.code, opened.value.code) == (code, code)


@pytest.mark.req("X-30")
def test_a_key_is_written_by_the_step_that_brings_its_last_part() -> None:
    job = entered()
    workflow = replace(job.workflow, correlation={"corr_case": "the case", "corr_amount": "case/${state.amount}"})

    completed = leave(replace(job, workflow=workflow), Result(job.case.model_copy(update={"amount": 9})))

    assert completed.correlation == {"corr_amount": "case/9"}


def test_a_profile_maps_the_answer_and_writes_the_keys_of_the_next_waits() -> None:
    job = entered()
    steps = [("input", "state.amount", "request.amount"), ("output", "result.amount", "state.total")]
    profile = TaskProfile(mapping=IoMapping.of(steps), keys={"corr_other": parse("o-${state.total}")})

    completed = leave(replace(job, task_profile=profile), Result(job.case.model_copy(update={"amount": 9})))

    assert data_of(completed) == {**DATA, "total": 9}
    assert completed.correlation == {"corr_other": "o-9"}


def test_a_case_begins_with_its_payload_its_flags_and_the_keys_it_has() -> None:
    workflow = make_registry().workflows["kyc.open-case"]
    data = {"case_id": "c-1"}

    ready = begin(workflow, data, instance_uid=UID, entry_id=ENTRY, tenant_id="t1", at=NOW)

    assert (dict(ready.correlation), ready.business_key) == ({"corr_case": "c-1"}, None)
    assert {PAYLOAD: make_content(data, workflow.schema).decode()}.keys() < ready.variables.keys()
    assert (ready.variables["corr_case"], ready.variables["orch_done"]) == ("c-1", False)


def test_signed_payloads_need_a_key() -> None:
    workflow = make_registry(integrity="signed").workflows["kyc.open-case"]

    with pytest.raises(PermanentContract) as caught:
        begin(workflow, {}, instance_uid=UID, entry_id=ENTRY, tenant_id="t1", at=NOW)

    assert caught.value.code == "KeyRingMissing"
