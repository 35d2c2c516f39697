"""Progress: how far an entry is, as one word or as a sentence."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from verbworker.runbook.event import Entry, EntryMode, Event, Kind, OpenToken, Status, Wait
from verbworker.runbook.progress import coarse_progress, progress

NOW = datetime(2026, 11, 16, tzinfo=UTC)
ENTRY = uuid4()


def entry(status: Status) -> Entry:
    return Entry(
        entry_id=ENTRY,
        tenant_id="t",
        request_key=None,
        verb="kyc.open-case",
        verb_version="1",
        mode=EntryMode.DURABLE,
        sentence="Open a case",
        invocation="(kyc.open-case)",
        args={},
        asked_by="ada",
        status=status,
        outcome=None,
        process_id="kyc",
        process_version=1,
        definition_key=1,
        provenance={},
        cancel_requested_at=None,
        created_at=NOW,
        updated_at=NOW,
        ended_at=None,
    )


def event(kind: Kind, **detail: Any) -> Event:
    return Event(ENTRY, 1, NOW, kind, detail, Status.EXECUTING, b"")


def step(element: str) -> Event:
    return event(Kind.STEP_COMPLETED, verb="kyc.check", element=element)


def wait(reason: str) -> OpenToken:
    return OpenToken(uuid4(), Wait.HUMAN_GATE, reason, NOW)


@pytest.mark.req("EVT-13")
@pytest.mark.parametrize(
    ("status", "word"),
    [
        (Status.EXECUTING, "in progress"),
        (Status.PARKED, "parked"),
        (Status.COMPLETED, "done"),
        (Status.FAILED, "done"),
        (Status.CANCELLED, "done"),
    ],
)
def test_progress_is_one_word_for_who_wants_no_more(status: Status, word: str) -> None:
    assert coarse_progress(progress(entry(status), [], [], steps=5).status) == word


@pytest.mark.req("EVT-12", "EVT-13", "EVT-18")
def test_progress_counts_the_steps_and_says_who_is_awaited() -> None:
    events = [step("a"), event(Kind.PARKED), step("b"), event(Kind.GATE_DECIDED, gate="intake")]

    found = progress(entry(Status.PARKED), events, [wait("Awaiting reviewer")], steps=5)

    assert found.detailed == "3 of 5, awaiting reviewer"


def test_a_step_that_came_back_in_a_loop_counts_as_often_as_it_is_listed() -> None:
    assert progress(entry(Status.EXECUTING), [step("a"), step("a")], [], steps=3).detailed == "2 of 4"
    assert progress(entry(Status.COMPLETED), [step("a"), step("a"), step("b")], [], steps=3).detailed == (
        "3 of 3, completed"
    )


def test_a_verb_that_stands_at_two_places_is_two_steps() -> None:
    assert progress(entry(Status.EXECUTING), [step("a"), step("b")], [], steps=3).detailed == "2 of 3"


def test_an_entry_that_ended_early_has_done_all_there_was_to_do() -> None:
    assert progress(entry(Status.COMPLETED), [step("a")], [], steps=5).detailed == "1 of 1, completed"


def test_an_entry_that_failed_shows_how_far_it_came() -> None:
    assert progress(entry(Status.FAILED), [step("a")], [], steps=5).detailed == "1 of 5, failed"


def test_who_took_a_longer_way_has_no_more_than_all() -> None:
    assert progress(entry(Status.EXECUTING), [step("a"), step("b")], [], steps=1).detailed == "2 of 2"


def test_an_entry_whose_way_is_unknown_just_counts() -> None:
    assert progress(entry(Status.EXECUTING), [], [], steps=0).detailed == "0 steps"


def test_an_entry_waits_for_all_that_it_waits_for() -> None:
    found = progress(entry(Status.PARKED), [], [wait("Awaiting reviewer"), wait("Awaiting documents")], steps=2)

    assert found.detailed == "0 of 2, awaiting reviewer, awaiting documents"
