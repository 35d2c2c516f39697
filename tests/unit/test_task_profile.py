"""Terms: what a compiled profile says of one task, and the names of what can go wrong."""

from typing import Any

import pytest

from tests.support.frames import make_job
from verblint.contracts.templates import parse
from verbworker.errors import PermanentContract
from verbworker.profile.task_profile import LONGEST_KEY, NO_TASK_PROFILE, ProcessProfile, TaskProfile

POLICY = {
    "schedule_to_close_timeout_seconds": 3600,
    "start_to_close_timeout_seconds": 5,
    "retry": {
        "maximum_attempts": 7,
        "initial_interval_seconds": 1,
        "maximum_interval_seconds": 10,
        "backoff_coefficient": 2,
        "non_retryable_error_types": ["ValueError"],
    },
}


def terms(**node: Any) -> TaskProfile:
    """The terms of the one task of a process."""
    ir = {
        "process": {"id": "kyc", "definition_id": "kyc/1"},
        "nodes": [{"id": "ask", "task": {"type": "kyc.check", "policy": "patient"}, **node}, {"id": "end"}],
        "messages": [
            {"id": "m", "name": "answered", "key": "corr_case", "template": "${state.case.id}"},
            {"id": "n", "name": "withdrawn", "key": "corr_other", "template": "o/${state.other}"},
        ],
    }
    return ProcessProfile.of("sha256:0", ir, {"patient": POLICY}).task("ask")


@pytest.mark.req("POL-04", "POL-06")
def test_the_policy_is_the_one_that_was_compiled() -> None:
    policy = terms().policy

    assert policy is not None
    assert (policy.name, policy.retry.maximum_attempts) == ("patient", 7)
    assert policy.start_to_close_timeout_seconds == 5
    assert policy.retry.non_retryable_error_types == ("ValueError",)


def test_a_task_that_was_not_compiled_has_no_terms() -> None:
    ir = {"process": {"definition_id": "kyc/1"}, "nodes": [], "messages": []}

    assert ProcessProfile.of("sha256:0", ir, {}).task("ask") is NO_TASK_PROFILE


@pytest.mark.req("TPL-02", "TPL-08", "TPL-11")
def test_an_idempotency_key_is_made_of_the_run_and_the_state() -> None:
    text = r"\${k}/${process_instance_id}/${process_run_id}/${step_id}/${step_instance_id}/${state.case.id}"
    task = terms(task={"type": "kyc.check", "idempotency_key_template": text})
    job = make_job(process_instance_key=5, process_definition_key=6, element_id="ask")

    assert task.counts_steps
    assert task.idempotency_key(job, {"case": {"id": 9}}, visit=3) == "${k}/5/6/ask/ask/3/9"
    assert terms().idempotency_key(job, {}, visit=1) is None
    assert not terms().counts_steps


@pytest.mark.req("CPL-15", "X-26")
def test_tasks_of_one_type_are_told_apart_by_their_element() -> None:
    tasks = [
        {
            "id": name,
            "task": {"type": "kyc.check", "policy": policy, "idempotency_key_template": f"{name}/${{step_id}}"},
        }
        for name, policy in (("ask", "patient"), ("ask_again", "hasty"))
    ]
    ir = {"process": {"id": "kyc", "definition_id": "kyc/1"}, "nodes": tasks, "messages": []}
    profile = ProcessProfile.of("sha256:0", ir, {"patient": POLICY, "hasty": POLICY})
    terms_of = {name: profile.task(name) for name in ("ask", "ask_again")}

    assert [one.policy.name for one in terms_of.values() if one.policy] == ["patient", "hasty"]
    assert [one.idempotency_key(make_job(element_id=name), {}, visit=1) for name, one in terms_of.items()] == [
        "ask/ask",
        "ask_again/ask_again",
    ]


@pytest.mark.req("TPL-04", "TPL-05", "X-26")
@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({}, "AmeideTemplateMissingPath"),
        ({"k": None}, "AmeideTemplateMissingPath"),
        ({"k": {"deeper": 1}}, "AmeideTemplateMissingPath"),
        ({"k": 1.5}, "AmeideTemplateMissingPath"),
        ({"k": ""}, "AmeideTemplateEmpty"),
        ({"k": " \t"}, "AmeideTemplateEmpty"),
        ({"k": "x" * (LONGEST_KEY + 1)}, "KeyTooLong"),
    ],
)
def test_a_key_that_cannot_be_made_has_the_profiles_own_name_for_why(state: dict[str, Any], code: str) -> None:
    task = TaskProfile(key=parse("${state.k}"))

    with pytest.raises(PermanentContract) as refused:
        task.idempotency_key(make_job(), state, visit=1)

    assert refused.value.code == code
    assert "xxx" not in str(refused.value)


@pytest.mark.req("PRX-28", "X-30")
def test_the_last_task_makes_the_keys_of_the_wait() -> None:
    task = terms(keys=["corr_case"])

    assert task.correlation({"case": {"id": "c-1"}}) == {"corr_case": "c-1"}
    with pytest.raises(PermanentContract) as refused:
        task.correlation({"case": {}})
    assert refused.value.code == "AmeideTemplateMissingPath"


@pytest.mark.req("PRX-28")
def test_of_several_branches_whoever_has_the_parts_makes_the_key() -> None:
    task = terms(ripe_keys=["corr_other"])

    assert task.correlation({}) == {}
    assert task.correlation({"other": 4}) == {"corr_other": "o/4"}


def test_a_template_that_is_broken_has_the_profiles_own_name_for_why() -> None:
    with pytest.raises(PermanentContract) as refused:
        terms(task={"type": "kyc.check", "idempotency_key_template": "${state.case"})

    assert refused.value.code == "TermsInvalid"
