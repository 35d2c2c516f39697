"""The example's model runs on flags alone: whatever the payload is, the engine goes one way and carries it."""

from pathlib import Path

import pytest

from tests.support.drawing import Drawing
from tests.support.kernel import Game
from verbworker.job.job import PAYLOAD, PAYLOAD_HASH

MODEL = Path(__file__).parents[2] / "processes" / "kyc-open-case" / "process.bpmn"
FLAGS = {
    "orch_docs_received": False,
    "orch_review_deadline": "P5D",
    "orch_review_outcome": "pending",
    "orch_escalated": False,
}
GATE = b'<ameide:updateDefinition name="review" />'
REVIEW = "io.camunda.zeebe:userTask"
TO_THE_REVIEWER = [
    *("kyc.create-case-record", "kyc.request-documents", "kyc.screen-sanctions", "kyc.receive-documents"),
    *("kyc.assign-reviewer", REVIEW, "kyc.record-review-decision"),
]


class Authored(Drawing):
    """The model as its author drew it, with something more inside its user task."""

    def __init__(self, more: bytes = b"") -> None:
        super().__init__()
        self._more = more

    def xml(self) -> bytes:
        """The bytes of the file."""
        return MODEL.read_bytes().replace(GATE, GATE + self._more)


def walk(payload: object, outcome: str, model: Drawing) -> tuple[Game, list[str]]:
    """Play a case to its end by what the engine offers; return the jobs in their order."""
    carried = {PAYLOAD: payload, PAYLOAD_HASH: "of nobody's business"}
    game = Game(model).begin(**FLAGS, **carried, corr_documents="c-1")
    done: list[str] = []
    while game.ended is None:
        if waiting := [wait for wait in game.state.waits.values() if wait.node == "await_documents"]:
            game.deliver(waiting[0].node)
            continue
        kind = min(game.open_jobs(), key=lambda one: (one == REVIEW, one))
        done.append(kind)
        game.complete(kind, **({"orch_review_outcome": outcome} if kind.endswith("review-decision") else {}))
        assert {name: game.state.variables[name] for name in carried} == carried
    return game, done


@pytest.mark.req("REG-19", "PAY-03", "NOT-01")
@pytest.mark.parametrize("outcome", ["approved", "rejected"])
@pytest.mark.parametrize("payload", [None, "", "no JSON {", '{"data":{"review":{"decision":"rejected"}}}', 7])
def test_a_model_takes_the_way_of_its_flags_whatever_the_payload_is(payload: object, outcome: str) -> None:
    game, done = walk(payload, outcome, Authored())

    assert sorted(done[: len(TO_THE_REVIEWER)]) == sorted(TO_THE_REVIEWER)
    assert done[len(TO_THE_REVIEWER) :] == ([] if outcome == "approved" else ["verbworker.compensate"])
    assert game.ended == "completed"


@pytest.mark.req("NOT-05")
@pytest.mark.parametrize(
    "more",
    [
        '<zeebe:formDefinition formId="review" />',
        '<zeebe:assignmentDefinition assignee="ada" candidateGroups="reviewers" />',
        '<zeebe:taskSchedule dueDate="2026-12-01T00:00:00Z" />',
        '<zeebe:taskHeaders><zeebe:header key="topic" value="kyc.reviews" /></zeebe:taskHeaders>',
        '<acme:queue xmlns:acme="urn:acme" topic="kyc.reviews" />',
    ],
)
def test_forms_assignments_topics_and_queues_change_nothing_that_is_executed(more: str) -> None:
    plain, decorated = (walk("", "rejected", Authored(text)) for text in (b"", more.encode()))

    assert Authored(more.encode()).xml() != Authored().xml()
    assert decorated[1] == plain[1]
    assert decorated[0].state == plain[0].state
