"""What a verb may know of its run."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from verbworker.contract.verb import Call, Decision, ReceivedMessage, Result
from verbworker.errors import PermanentContract


def make_call(**changes: Any) -> Call:
    call = Call(
        verb="kyc.check",
        entry_id=UUID(int=1),
        tenant_id="t1",
        idempotency_key="vw1-key",
        attempt=1,
        epoch=1,
        deadline=datetime.now(UTC) + timedelta(hours=1),
        log=logging.getLogger("tests"),
        clock=partial(datetime.now, UTC),
    )
    return replace(call, **changes)


def test_a_transactional_verb_writes_through_its_own_transaction() -> None:
    connection: Any = object()

    assert make_call(connection=connection).db is connection


def test_an_external_verb_has_no_transaction() -> None:
    with pytest.raises(PermanentContract) as caught:
        _ = make_call().db

    assert caught.value.code == "NoDatabase"


def test_a_verb_knows_how_long_it_may_take() -> None:
    call = make_call()
    now = call.deadline - timedelta(minutes=7)

    assert replace(call, clock=lambda: now).remaining() == timedelta(minutes=7)


def test_time_that_is_over_is_never_negative() -> None:
    assert make_call(deadline=datetime(2020, 1, 1, tzinfo=UTC)).remaining() == timedelta(0)


def test_a_result_sets_nothing_unless_told() -> None:
    result: Any = Result(object())

    assert (result.flags, result.correlation, result.outcome) == ({}, {}, "ok")


@pytest.mark.req("REG-12", "REG-18")
def test_a_call_says_nothing_of_the_process_around_it() -> None:
    engine_words = ("process", "bpmn", "instance", "job", "element", "engine", "variable")
    names = [name for name in dir(make_call()) if not name.startswith("_")]

    assert [name for name in names if any(word in name for word in engine_words)] == []


def _decided(gate: str, decision: str) -> Decision:
    return Decision(gate, decision, "", "anna", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.req("WAIT-04")
def test_a_verb_sees_the_latest_decision_of_a_gate() -> None:
    made = (_decided("review", "reject"), _decided("review", "approve"), _decided("sign", "yes"))
    call = make_call(decisions=made)

    assert [call.decision(gate) for gate in ("review", "sign", "other")] == [made[1], made[2], None]


def test_a_verb_sees_the_latest_message_of_a_name() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    came = tuple(ReceivedMessage("document-received", f"m-{number}", "case-1", {"n": number}, at) for number in (1, 2))
    call = make_call(messages=came)

    assert [call.message(name) for name in ("document-received", "other")] == [came[1], None]
