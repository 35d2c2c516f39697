"""What the runbook says of gates, in sentences for people."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from verbworker.runbook.event import Event, Kind, Status, describe


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
    ],
)
def test_what_happened_at_a_gate_is_a_sentence(kind: Kind, detail: dict[str, str], sentence: str) -> None:
    event = Event(UUID(int=1), 1, datetime(2026, 1, 1, tzinfo=UTC), kind, detail, Status.PARKED, b"")

    assert describe(event) == sentence
