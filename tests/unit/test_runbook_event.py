"""Events in words for people, and what follows from them."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from verbworker.runbook.event import Event, Kind, ParkedToken, Status, Wait, describe, open_incidents, outcome_name

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def event(kind: Kind, **detail: Any) -> Event:
    return Event(UUID(int=1), 1, NOON, kind, detail, Status.EXECUTING, b"")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (event(Kind.STEP_COMPLETED, verb="kyc.ask", outcome="bpmn_error", error_code="E7"), "kyc.ask ended with E7"),
        (event(Kind.PARKED), "Waiting"),
        (event(Kind.PARKED, reason="Awaiting reviewer"), "Awaiting reviewer"),
        (event(Kind.GATE_GONE, gate="review"), "review no longer needs a decision"),
        (
            event(Kind.GATE_GONE, gate="review", decision="approve"),
            "The decision at review came too late: it was no longer needed",
        ),
        (event(Kind.RESULT, result="ok", outcome="ok"), "Completed"),
        (event(Kind.RESULT, result="ok", outcome="refused"), "Completed: refused"),
        (event(Kind.RESULT, result="err", code="E7"), "Failed: E7"),
        (event(Kind.RESULT, result="err", code="E7", text="no such client"), "Failed: E7: no such client"),
        (
            event(Kind.RESOLVE_REQUESTED, by="rita", reason="paid", flags={"orch_paid": True, "orch_by": "ü"}),
            'rita let it continue after it had stopped: paid (orch_paid = true, orch_by = "\\u00fc")',
        ),
        (
            event(Kind.RESOLVE_REQUESTED, by="rita", reason="", flags={"orch_n": 1}),
            "rita let it continue after it had stopped (orch_n = 1)",
        ),
        (
            event(Kind.RESOLVE_REQUESTED, by="rita", reason="paid", flags={}),
            "rita let it continue after it had stopped: paid",
        ),
        (event(Kind.CANCELLED, running=[]), "Cancelled"),
        (
            event(Kind.CANCELLED, running=[{"verb": "kyc.ask", "idempotency_key": "k-1"}]),
            "Cancelled while steps ran; their outcome is unknown: kyc.ask (idempotency key k-1)",
        ),
    ],
)
def test_an_event_is_a_sentence(told: Event, words: str) -> None:
    assert describe(told) == words


def test_an_incident_without_a_verb_names_its_element() -> None:
    assert "choice" in describe(event(Kind.INCIDENT_RAISED, element="choice", text="no condition holds"))


def test_incidents_stay_open_until_the_same_one_is_resolved() -> None:
    job = event(Kind.INCIDENT_RAISED, job_key=7)
    element = event(Kind.INCIDENT_RAISED, incident_key=8)
    other = event(Kind.INCIDENT_RESOLVED, job_key=9)
    resolved = event(Kind.INCIDENT_RESOLVED, job_key=7)

    assert open_incidents([job, event(Kind.PARKED), element, other]) == [job, element]
    assert open_incidents([job, element, resolved]) == [element]


def test_only_a_result_has_an_outcome_with_a_name() -> None:
    assert outcome_name(event(Kind.RESULT, outcome="refused")) == "refused"
    assert outcome_name(event(Kind.RESULT, outcome="ok")) is None
    assert outcome_name(event(Kind.PARKED, outcome="refused")) is None


def test_a_wait_has_one_place() -> None:
    case = ("acme", UUID(int=1), UUID(int=2))
    token = ParkedToken(*case, "engine", 3, 4, "review", Wait.HUMAN_GATE, "Awaiting reviewer")

    assert token.place == (*case, "engine", 3, 4, "review")
