"""What the REPL says: in the words of the domain, and harmless to a terminal."""

import ast
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.talking import make_shapes
from verbworker import repl
from verbworker.client.entry_view import FoundEntry
from verbworker.client.records import EntryDetail, EntryRecord, EventRecord, GateRecord
from verbworker.repl import formatting
from verbworker.repl.short_ids import ShortIds
from verbworker.runbook.event import Entry, EntryMode, Event, Kind, OpenToken, Stall, StallKind, Status, Wait
from verbworker.runbook.progress import Progress
from verbworker.stores.cases.gates import GateVerdict, HumanGate

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
BPMN = (
    *("bpmn", "zeebe", "camunda", "process", "instance", "token", "job", "element", "task", "gateway", "listener"),
    *("boundary", "subprocess", "feel", "incident", "flow", "engine", "variable", "payload", "deploy", "frame"),
)


def make_entry(**changes: Any) -> Entry:
    given: dict[str, Any] = {
        "entry_id": uuid4(),
        "tenant_id": "bank",
        "request_key": None,
        "verb": "kyc.open-case",
        "verb_version": "1",
        "mode": EntryMode.HUMAN_GATE,
        "sentence": "Open a case for Acme",
        "invocation": '(kyc.open-case :entity "Acme")',
        "args": {"entity": "Acme"},
        "asked_by": "ann",
        "status": Status.PARKED,
        "outcome": None,
        "process_id": "kyc-open-case",
        "process_version": 1,
        "definition_key": 1,
        "provenance": {},
        "cancel_requested_at": None,
        "created_at": NOW,
        "updated_at": NOW,
        "ended_at": None,
    }
    return Entry(**(given | changes))


def make_gate(entry_id: UUID, gate: str = "review", **changes: Any) -> GateRecord:
    given: dict[str, Any] = {
        "token_id": uuid4(),
        "tenant_id": "bank",
        "entry_id": entry_id,
        "instance_uid": uuid4(),
        "engine_id": "e",
        "job_key": 1,
        "user_task_key": None,
        "engine_assignee": None,
        "claim_trouble": None,
        "instance_key": 3,
        "element_instance_key": 2,
        "gate": gate,
        "reason": "Awaiting reviewer",
        "detail": {"decisions": ["approve", "reject"]},
        "claimed_by": None,
        "claimed_at": None,
        "opened_at": NOW,
        "seen_at": NOW,
        "closed_at": None,
        "closed_as": None,
        "sentence": "Open a case for Acme",
        "verb": "kyc.open-case",
        "verdict": None,
    }
    return GateRecord.of(HumanGate(**(given | changes)))


def make_event(kind: Kind, **detail: object) -> EventRecord:
    return EventRecord.of(Event(uuid4(), 1, NOW, kind, detail, Status.EXECUTING, b""))


def make_found(entry: Entry, *, trouble: str | None = None, stalls: Sequence[Stall] = ()) -> EntryDetail:
    waits = [OpenToken(uuid4(), Wait.HUMAN_GATE, "Awaiting reviewer", NOW)]
    far = Progress(entry.status, 3, 5, ("Awaiting reviewer",))
    return EntryDetail.with_waits(FoundEntry(entry, [], waits, far, trouble, list(stalls), []))


@pytest.mark.req("EVT-17", "EVT-18", "WAIT-06")
def test_an_entry_is_told_with_what_it_waits_for_and_who_decided() -> None:
    decided = make_event(Kind.GATE_DECIDED, by="ada", decision="approve", gate="review", reason="all is well")

    found = make_found(make_entry(outcome={"case": "C-1", "closed": False}))

    said = formatting.format_entry(found, [decided], ShortIds())

    assert said[:2] == ["1: Open a case for Acme", "  parked, 3 of 5, awaiting reviewer"]
    assert any(line.endswith(": Awaiting reviewer") for line in said)
    assert "  ada decided approve at review: all is well" in said
    assert said[-2:] == ["  case    C-1", "  closed  false"]


@pytest.mark.req("MSG-08")
def test_a_message_that_was_not_delivered_asks_for_a_person() -> None:
    failed = make_event(Kind.CORRELATION_FAILED, message_name="kyc.documents-received", reason="no instance waits")

    said = formatting.format_events([failed])

    assert said[0].endswith("Message delivery failed, manual resolution required: kyc.documents-received")


@pytest.mark.req("NOT-02")
def test_why_something_has_not_begun_is_left_to_operators() -> None:
    said = formatting.format_entry(
        make_found(make_entry(), trouble="NOT_FOUND: no process definition deployed"), [], ShortIds()
    )

    assert "  not started yet; it will be tried again, and an operator can find out why" in said


@pytest.mark.req("NOT-02")
def test_why_something_stands_still_is_left_to_operators() -> None:
    stall = Stall(StallKind.JOB, NOW, "Zeebe 8.6.0 hands out no job of it", "restart the broker")
    event = make_event(Kind.STALLED, reason=stall.reason)

    said = formatting.format_entry(make_found(make_entry(), stalls=[stall]), [], ShortIds()) + formatting.format_events(
        [event]
    )

    assert any(line.startswith("  no progress since ") for line in said)
    assert "Zeebe" not in " ".join(said)


def test_gates_are_called_by_the_number_of_their_entry() -> None:
    numbers, one, two = ShortIds(), uuid4(), uuid4()
    gates = [
        make_gate(one),
        make_gate(two, "legal", detail={}, claimed_by="ada"),
        make_gate(two, "finance", sentence=None),
    ]

    assert formatting.format_gates(formatting.names_of(gates, numbers)) == [
        "1          Open a case for Acme  Awaiting reviewer  takes approve | reject",
        "2/legal    Open a case for Acme  Awaiting reviewer  takes any word  claimed by ada",
        "2/finance  finance               Awaiting reviewer  takes approve | reject",
    ]


def test_two_gates_of_one_name_are_told_apart() -> None:
    entry_id = uuid4()
    gates = [make_gate(entry_id), make_gate(entry_id)]

    assert list(formatting.names_of(gates, ShortIds())) == ["1/review", str(gates[1].token_id)]


@pytest.mark.parametrize(
    ("answer", "end"), [(None, "; it continues."), ("gone", ", but too late: it was no longer needed.")]
)
def test_a_decision_is_told_with_what_came_of_it(answer: str | None, end: str) -> None:
    gate = make_gate(uuid4(), verdict=GateVerdict("approve", "", "ada", NOW, answer))

    assert formatting.format_decision(gate, ShortIds()) == [f"ada decided approve at review of 1{end}"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.EXECUTING, "1 is running: Open a case for Acme"),
        (Status.COMPLETED, "1 is done: Open a case for Acme"),
        (Status.FAILED, "1 ended as failed: Open a case for Acme; for the reason: events 1"),
    ],
)
def test_what_was_asked_for_is_told_as_it_stands(status: Status, said: str) -> None:
    assert formatting.format_start(EntryRecord.of(make_entry(status=status)), ShortIds()) == [said]


def test_nothing_is_told_as_nothing() -> None:
    empty = [
        formatting.format_gates({}),
        formatting.format_entries([], ShortIds()),
        formatting.format_events([]),
        formatting.format_verbs({}),
    ]

    assert empty == [
        ["Nothing waits for a person."],
        ["There are no entries yet."],
        ["There are no events yet."],
        ["There are no verbs."],
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zürich 東京", "Zürich 東京"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\nb\tc\x00", "a\\nb\\tc\\x00"),
        ("\u202eevil", "\\u202eevil"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_would_control_a_terminal_is_shown_and_not_sent(text: str, shown: str) -> None:
    assert formatting.plain(text) == shown


def words_of_the_model(text: str) -> list[str]:
    return [word for word in BPMN if re.search(rf"\b{word}s?\b", text, re.IGNORECASE)]


def literals(path: Path) -> Iterator[str]:
    """Every text of a module that somebody could read, without its documentation."""
    tree = ast.parse(path.read_text())
    quiet = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in quiet:
            yield node.value


@pytest.mark.req("EVT-17", "NOT-02")
def test_no_sentence_of_the_repl_has_a_word_of_the_model(tmp_path: Path) -> None:
    place = Path(str(repl.__file__)).parent
    written = [text for path in sorted(place.glob("*.py")) for text in literals(path)]
    shapes = make_shapes(tmp_path / "contracts")
    said = [*formatting.format_help(), *formatting.format_verbs(shapes)]
    said += [line for shape in shapes.values() for line in (*formatting.format_verb(shape), shape.hint)]

    found = [(word, text) for text in (*written, *said) for word in words_of_the_model(text)]

    assert len(written) > 100
    assert found == []


@pytest.mark.req("EVT-17", "NOT-02")
@pytest.mark.parametrize("kind", Kind)
def test_no_event_is_told_with_a_word_of_the_model(kind: Kind) -> None:
    detail = {"verb": "kyc.screen", "by": "ada", "gate": "review", "decision": "approve", "reason": "it waits"}
    said = formatting.format_event(
        make_event(kind, **detail, code="NoCustomer", name="the deadline", message_name="papers")
    )

    assert said
    assert words_of_the_model(said) == []
