"""What the runbook says, in sentences for people."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from verbworker.runbook.event import Event, Kind, StallKind, Status, describe


@pytest.mark.req("WAIT-01", "EVT-03")
@pytest.mark.parametrize(
    ("kind", "detail", "sentence"),
    [
        (Kind.PARKED, {"reason": "Awaiting reviewer"}, "Awaiting reviewer"),
        (Kind.GATE_CLAIMED, {"by": "anna", "gate": "review"}, "anna claimed review"),
        (Kind.GATE_RELEASED, {"by": "carl", "gate": "review", "had": "anna"}, "carl released review"),
        (Kind.GATE_DECIDED, {"by": "anna", "gate": "review", "decision": "approve"}, "anna decided approve at review"),
        (
            Kind.GATE_GONE,
            {"gate": "review", "decision": "approve"},
            "The decision at review came too late: it was no longer needed",
        ),
        (Kind.GATE_GONE, {"gate": "review"}, "review no longer needs a decision"),
        (Kind.ADOPTED, {}, "Its latest records were lost; it continues from where it was"),
        (Kind.UNPINNED, {}, "Its latest records were lost; it waits to be assigned again"),
        (
            Kind.STEP_COMPLETED,
            {"verb": "kyc.screen", "outcome": "bpmn_error", "error_code": "hit"},
            "kyc.screen ended with hit",
        ),
        (Kind.INCIDENT_RAISED, {"verb": "kyc.screen", "code": "Timeout"}, "kyc.screen stopped: Timeout"),
        (Kind.COMPENSATED, {"verb": "kyc.forget", "undoes": "kyc.note"}, "kyc.forget undid kyc.note"),
        (StallKind.JOB.event, {}, "No progress"),
        (StallKind.TIMER.event, {}, "Overdue"),
    ],
)
def test_what_happened_is_a_sentence(kind: Kind, detail: dict[str, str], sentence: str) -> None:
    event = Event(UUID(int=1), 1, datetime(2026, 1, 1, tzinfo=UTC), kind, detail, Status.PARKED, b"")

    assert describe(event) == sentence


def test_a_stall_has_a_name_for_people() -> None:
    assert [kind.words for kind in StallKind] == [
        "stalled",
        "retry overdue",
        "timer overdue",
        "stalled after its message",
    ]


@pytest.mark.parametrize("kind", Kind)
def test_every_event_has_a_sentence_whatever_it_lacks(kind: Kind) -> None:
    event = Event(UUID(int=1), 1, datetime(2026, 1, 1, tzinfo=UTC), kind, {"note": "{by} {0}"}, Status.PARKED, b"")

    assert describe(event)
