"""The story of a job: every kind of event has a sentence that says what happened and why."""

import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import verbworker
from tests.support.histories import ANN, BOB, at, make_event, make_history, make_told, unfinished
from verbworker.app.explain import StoryLine, explain, headline
from verbworker.job.frame import FrameState, FrameStep
from verbworker.stores import sql as _sql
from verbworker.stores.jobs.histories import FrameEvent, FrameReport, History

LEFT: dict[str, Any] = {"from": str(ANN), "lease_until": at(5).isoformat()}
A, B = "worker ann (host a, pid 11)", "worker bob (host b, pid 22)"
FAILURE: dict[str, Any] = {
    "class": "TransientExternal",
    "code": "Timeout",
    "text": "no answer",
    "next": at(9).isoformat(),
}

TABLE = {
    "takeover": (
        make_event("takeover", owner=BOB, epoch=2, run=2, **LEFT),
        f"The engine delivered the job again; {B} took it over as epoch 2 and began run 2: the lease of {A} had run out"
        f" at 12:00:05.000 without a heartbeat. What {A} still writes is refused.",
    ),
    "retry": (
        make_event("retry", owner=BOB, epoch=2, run=2, **LEFT),
        f"The engine delivered the job again; {B} claimed it as epoch 2 and began run 2: its last run had failed and"
        " the delay was over.",
    ),
    "release": (
        make_event("release", owner=BOB, epoch=2, run=1, **LEFT),
        f"The engine delivered the job although it was held; {B} claimed it as epoch 2 and began run 1: it came long"
        " after the incident was reported, so a person resolved it in the engine.",
    ),
    "failed": (
        make_event("failed", retries_left=2, **FAILURE),
        f"The run of {A} failed (TransientExternal Timeout: no answer). The failure was stored; 2 retries are left and"
        " the next run may begin at 12:00:09.000.",
    ),
    "yielded": (
        make_event("yielded", retries_left=1, **FAILURE),
        "Worker ann (host a, pid 11) gave the run back (Timeout: no answer): our own infrastructure failed, so it costs"
        " no retry; 1 retry is left and the next run may begin at 12:00:09.000.",
    ),
    "incident": (
        make_event("incident", **FAILURE),
        f"The run of {A} was stopped for a person (TransientExternal Timeout: no answer).",
    ),
    "held": (
        make_event("held", owner=BOB, epoch=2, **FAILURE, **LEFT),
        f"The engine delivered the job again, but {B} held it for a person instead of running it (Timeout: no answer)."
        f" The lease of {A} had run out at 12:00:05.000.",
    ),
    "reported failure": (
        make_event("reported", state="failed"),
        "Worker ann (host a, pid 11) reported it to the engine, which will deliver the job again after the delay.",
    ),
    "reported incident": (
        make_event("reported", state="incident"),
        "Worker ann (host a, pid 11) reported it to the engine, which raised an incident: the job waits for a person.",
    ),
    "swept to run again": (
        make_event("swept", owner=BOB, epoch=2, decision="claim again", **LEFT),
        f"W{B[1:]} found that the lease of {A} had run out at 12:00:05.000 and gave the run back, so that the engine"
        f" delivers the job again. It costs no retry. What {A} still writes is refused.",
    ),
    "swept and held": (
        make_event("swept", owner=BOB, epoch=2, decision="hold poison", code="CrashLoop", text="five times", **LEFT),
        f"W{B[1:]} found that the lease of {A} had run out at 12:00:05.000 and held the job for a person instead of"
        f" running it again (CrashLoop: five times). What {A} still writes is refused.",
    ),
    "swept and reported": (
        make_event("swept", owner=BOB, epoch=2, decision="report incident", **LEFT),
        f"W{B[1:]} found that the lease of {A} had run out at 12:00:05.000 and reported the failure in its place. What"
        f" {A} still writes is refused.",
    ),
    "closed": (
        FrameEvent(at(1), "closed", 2, BOB, ""),
        f"W{B[1:]} learned from the engine that the job no longer exists, and closed the frame.",
    ),
    "released": (
        make_event("released", owner=None, by="eve", reason="provider is back", retries_left=3, as_new=False),
        "Eve released the job under the same idempotency key (provider is back); 3 retries are left.",
    ),
    "released as new": (
        make_event("released", owner=None, by="eve", reason="", retries_left=1, as_new=True),
        "Eve released the job as new, under a new idempotency key (no reason given); 1 retry is left.",
    ),
    "refused verdict": (
        FrameEvent(at(1), "verdict refused", None, ANN, "too large"),
        "Worker ann (host a, pid 11) sent the verdict, but the engine rejects it; a person must look (too large).",
    ),
    "fenced": (
        FrameEvent(at(1), "fenced", None, ANN, "another worker owns the frame"),
        "Worker ann (host a, pid 11) found that another worker owns the frame, so it wrote and sent nothing more.",
    ),
    "something of a newer version": (
        FrameEvent(at(1), "danced", None, None, "a waltz"),
        "A worker danced (a waltz).",
    ),
}


def told(*events: FrameEvent, frame: FrameReport | None = None, conflicts: tuple[datetime, ...] = ()) -> list[str]:
    """The sentences of a story."""
    return [line.text for line in explain(make_history(frame, *events, conflicts=conflicts))]


@pytest.mark.req("EVT-16", "EVT-18")
@pytest.mark.parametrize(("event", "sentence"), TABLE.values(), ids=TABLE)
def test_an_event_has_its_sentence(event: FrameEvent, sentence: str) -> None:
    assert told(event)[1] == sentence


def test_the_ordinary_story_is_told_from_the_frame_alone() -> None:
    assert explain(make_history()) == [
        StoryLine(
            at(0), f"The engine delivered the job; {A} wrote its frame as epoch 1 and began run 1 (external mode)."
        ),
        StoryLine(
            at(1),
            "Worker ann (host a, pid 11) stored the verdict of run 1: completed with 120 bytes of payload and"
            " orch_checked = True.",
        ),
        StoryLine(at(2), "The engine acknowledged the verdict."),
        StoryLine(at(60), "The job is finished after 1 delivery."),
    ]


def test_the_first_owner_is_known_although_the_frame_names_the_last() -> None:
    takeover = make_event("takeover", owner=BOB, epoch=2, **LEFT)

    first, *_ = told(takeover, frame=make_told(owner=BOB, epoch=2))

    assert A in first


def test_a_first_owner_nobody_remembers_is_a_worker() -> None:
    first, *_ = told(frame=make_told(owner=BOB, epoch=2))

    assert first.startswith("The engine delivered the job; a worker wrote")


def test_an_owner_without_a_name_is_shown_by_its_number() -> None:
    first, *_ = told(frame=make_told(owner=UUID("deadbeef-0000-0000-0000-000000000000")))

    assert "worker deadbeef wrote" in first


def test_the_claim_after_a_release_says_that_a_person_released_it() -> None:
    released = make_event("released", 2, owner=None, by="eve", reason="why", retries_left=3)
    retries = [make_event("retry", second, owner=BOB, epoch=second, run=second) for second in (3, 4)]

    sentences = told(released, *retries, frame=make_told(popped_at=at(8), acked_at=at(9), epoch=4))

    assert [sentence.endswith("a person had released it.") for sentence in sentences[2:4]] == [True, False]


def test_a_story_is_in_order_of_time() -> None:
    lines = explain(make_history(None, make_event("replay", 9), conflicts=(at(0.5),)))

    assert [line.at for line in lines] == sorted(line.at for line in lines)


@pytest.mark.req("JOB-05")
def test_a_delivery_of_another_job_under_the_same_key_is_told() -> None:
    assert told(conflicts=(at(0.5),))[1].startswith("A delivery carried this key but was another job")


def test_a_bpmn_error_is_a_verdict_too() -> None:
    frame = make_told(outcome="bpmn_error", error_code="REJECTED", fail_text="the reviewer said no", flags={})

    assert told(frame=frame)[1].endswith("stored the verdict of run 1: the BPMN error REJECTED (the reviewer said no).")


@pytest.mark.req("FAIL-07")
def test_an_engine_that_knows_no_such_job_has_the_last_word() -> None:
    assert "the job does not exist" in told(frame=make_told(ack_result="gone"))[2]


NOW = {
    "finished and archived": (make_told(archived=True, deliveries=2), "after 2 deliveries and archived."),
    "not acknowledged": (
        make_told(acked_at=None, ack_result=None),
        "it is sent to the engine until the engine acknowledges it.",
    ),
    "waiting for a retry": (
        unfinished(FrameState.FAILED, next_retry_at=at(90), retries_left=1),
        "it may run from 12:01:30.000, 1 retry is left.",
    ),
    "held": (
        unfinished(
            FrameState.INCIDENT, reported_at=at(3), fail_class="PermanentContract", fail_code="X", fail_text="y"
        ),
        "The job is held (PermanentContract X: y) until a person releases it: verbworker frames release 7 --reason ...",
    ),
    "gone from the engine": (
        unfinished(FrameState.FAILED, next_retry_at=at(3), acked_at=at(3), ack_result="gone"),
        "The job is gone from the engine after 1 delivery; nothing is left to do.",
    ),
    "held and not reported": (unfinished(FrameState.INCIDENT), "The engine does not know yet"),
    "running": (unfinished(FrameState.STARTED, lease_until=at(80)), "its lease ends at 12:01:20.000."),
    "silent": (unfinished(FrameState.STARTED), "Another worker takes the job over: a few seconds after its lease"),
    "silent too often": (
        unfinished(FrameState.STARTED, runs=5),
        "the sweep or the next delivery holds the job for a person.",
    ),
    "silent and not to be repeated": (
        unfinished(FrameState.STARTED, on_unknown="hold"),
        "must not be repeated, so the job is held for a person next.",
    ),
}


@pytest.mark.parametrize(("frame", "words"), NOW.values(), ids=NOW)
def test_the_last_line_says_how_things_stand(frame: FrameReport, words: str) -> None:
    assert words in told(frame=frame)[-1]


def test_the_headline_says_which_job_it_is() -> None:
    assert headline(make_told()) == (
        f"Job 7 is kyc.check at check of process kyc version 3, instance 70, entry {UUID(int=9)}."
    )
    assert headline(replace(make_told(), entry_id=None)).endswith("instance 70.")


def noted_kinds() -> set[str]:
    """Every kind the runtime may write: in its SQL, by name in `work`, and as a step of the decision table."""
    sql = "".join([*_sql.queries("frames").values(), *_sql.queries("leases").values()])
    written = set(re.findall(r"\$1, (?:\$2|job_key), '([a-z]+)'", sql)) | {"retry", "takeover", "release"}
    source = "".join(path.read_text() for path in (Path(verbworker.__file__).parent / "work").rglob("*.py"))
    named = set(re.findall(r'note\([^,]+, "([a-z ]+)"', source))
    answers = {f"verdict {answer}" for answer in ("not active", "unavailable", "refused", "fenced", "suspended")}
    return written | named | answers | {FrameStep.SUPERSEDED.value, FrameStep.WAIT.value, FrameStep.CONTINUE.value}


def test_everything_the_runtime_notes_has_words_of_its_own() -> None:
    kinds = noted_kinds()
    bare = [kind for kind in kinds if told(make_event(kind))[1].endswith(f"pid 11) {kind}.")]

    assert {"failed", "held", "released", "busy", "fenced", "replay", "relay", "swept", "closed"} <= kinds
    assert bare == []


def test_a_plain_job_is_called_one() -> None:
    frame = replace(make_told(), state=FrameState.COMPLETED, outcome="complete", output_bytes=17, output_seal="plain")
    lines = explain(History(replace(frame, popped_at=frame.now)))

    assert any("completed with 17 bytes of variables, as a plain job" in line.text for line in lines)
