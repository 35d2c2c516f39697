"""Spans: one per delivery, with names and numbers and no words of a payload."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from opentelemetry import trace

from tests.support.frames import make_job
from tests.support.telemetry import Telemetry, trace_id
from verbworker.app.tracing import open_telemetry
from verbworker.app.tracing.open_telemetry import CaseTraces
from verbworker.errors import StoreUnavailable
from verbworker.job.frame import Claim
from verbworker.job.trace import UNTRACED, SentMessage, Tracer
from verbworker.job.trace_context import ambient_traceparent, carry_trace

SECRET = "a-secret-diamond"
JOB = make_job(7, variables={"domain_payload": SECRET}, headers={"note": SECRET})


@pytest.fixture
def traced() -> Telemetry:
    return Telemetry()


def make_claim() -> Claim:
    """A claim on its third run, after a takeover."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    return Claim(
        job_key=7,
        epoch=4,
        owner=UUID(int=1),
        claimed_from="takeover",
        runs=3,
        retries_left=2,
        generation=0,
        idempotency_key="vw1-key",
        first_run_at=now,
        now=now,
        lease_until=now,
    )


def test_a_span_tells_verb_try_and_outcome(traced: Telemetry) -> None:
    with traced.tracer().job(JOB) as span:
        span.record_claim(make_claim())
        span.record_end("completed")

    (told,) = traced.spans
    assert (told.name, told.kind, told.status.status_code) == (
        "process kyc.check",
        trace.SpanKind.CONSUMER,
        trace.StatusCode.UNSET,
    )
    assert dict(told.attributes or {}) == {
        "messaging.system": "verbworker",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "kyc.check",
        "messaging.message.id": "7",
        "verbworker.verb": "kyc.check",
        "verbworker.job_key": 7,
        "verbworker.process": "kyc",
        "verbworker.element": "check",
        "verbworker.instance_key": 9000,
        "verbworker.attempt": 3,
        "verbworker.epoch": 4,
        "verbworker.claim": "takeover",
        "verbworker.outcome": "completed",
    }


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("completed", trace.StatusCode.UNSET),
        ("thrown", trace.StatusCode.UNSET),
        ("not claimed", trace.StatusCode.UNSET),
        ("retry", trace.StatusCode.ERROR),
        ("yielded", trace.StatusCode.ERROR),
        ("incident", trace.StatusCode.ERROR),
        ("fenced", trace.StatusCode.ERROR),
        ("bug", trace.StatusCode.ERROR),
    ],
)
def test_a_verdict_is_no_error(outcome: str, status: trace.StatusCode, traced: Telemetry) -> None:
    with traced.tracer().job(JOB) as span:
        span.record_end(outcome)

    assert traced.spans[0].status.status_code is status


def test_an_error_is_told_by_its_class_in_span_and_duration(traced: Telemetry) -> None:
    with traced.tracer().job(JOB) as span:
        span.record_end("retry", "TransientExternal")
    with traced.tracer().job(JOB) as span:
        span.record_end("fenced")
    with traced.tracer().job(JOB) as span:
        span.record_end("not claimed")

    types = [dict(told.attributes or {}).get("error.type") for told in traced.spans]
    points = traced.durations("messaging.process.duration")
    operation = {
        "messaging.system": "verbworker",
        "messaging.operation.name": "process",
        "messaging.destination.name": "kyc.check",
    }
    assert types == ["TransientExternal", "fenced", None]
    assert [(attributes, point.count) for attributes, point in points] == [
        ({**operation, "error.type": "TransientExternal"}, 1),
        ({**operation, "error.type": "fenced"}, 1),
    ]
    assert 0.005 in points[0][1].explicit_bounds


def test_an_error_on_its_way_through_leaves_no_words(traced: Telemetry) -> None:
    with pytest.raises(ValueError, match=SECRET), traced.tracer().job(JOB):
        raise ValueError(SECRET)

    assert SECRET not in traced.spans[0].to_json()


def test_a_verbs_own_spans_lie_inside(traced: Telemetry) -> None:
    with traced.tracer().job(JOB), traced.provider.get_tracer("mine").start_as_current_span("mine"):
        pass

    inner, outer = traced.spans
    assert inner.parent is not None
    assert outer.context is not None
    assert (inner.name, inner.parent.span_id) == ("mine", outer.context.span_id)


ENTRY = UUID(int=0x1234_5678_9ABC_DEF0_1234_5678_9ABC_DEF0)
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def parent_of(traced: Telemetry, variables: dict[str, object], **known: str) -> str | None:
    return await traced.tracer(**known).find_parent(make_job(7, variables=variables))


async def test_a_job_belongs_to_the_trace_of_its_case(traced: Telemetry) -> None:
    known = await parent_of(traced, {"vw_entry_id": str(ENTRY)}, **{str(ENTRY): CALLER})
    derived = await parent_of(traced, {"vw_entry_id": str(ENTRY)})

    with traced.tracer().job(JOB, known), traced.tracer().job(JOB, derived):
        pass

    assert known == CALLER
    assert [trace_id(span) for span in traced.spans] == [ENTRY.hex, "0af7651916cd43dd8448eb211c80319c"]


@pytest.mark.parametrize("given", [None, "", "no id", 7, {}])
async def test_a_job_of_no_case_has_a_trace_of_its_own(traced: Telemetry, given: object) -> None:
    assert await parent_of(traced, {"vw_entry_id": given}) is None


async def test_a_database_that_is_away_costs_the_trace_nothing_but_its_parent() -> None:
    async def read(_: UUID) -> str | None:
        raise StoreUnavailable("away")

    assert await CaseTraces(read).find(ENTRY) == f"00-{ENTRY.hex}-{ENTRY.hex[16:]}-01"


async def test_a_busy_case_is_read_once() -> None:
    reads: list[UUID] = []

    async def read(entry_id: UUID) -> str | None:
        reads.append(entry_id)
        return CALLER

    traces = CaseTraces(read)

    assert [await traces.find(ENTRY) for _ in range(3)] == [CALLER] * 3
    assert reads == [ENTRY]


def test_a_request_without_tracing_passes_on_the_trace_it_is_made_in(traced: Telemetry) -> None:
    with (
        traced.provider.get_tracer("theirs").start_as_current_span("theirs") as theirs,
        UNTRACED.request("kyc.check", None) as ambient,
        UNTRACED.request("kyc.check", CALLER) as given,
    ):
        context = theirs.get_span_context()
    with UNTRACED.request("kyc.check", None) as nothing:
        pass

    assert ambient.traceparent == f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert (given.traceparent, nothing.traceparent) == (CALLER, None)


@pytest.mark.parametrize(
    ("header", "carried"),
    [(CALLER, CALLER), (None, None), ("00-" + "0" * 32 + "-b7ad6b7169203331-01", None), ("x\u00ff", None)],
)
async def test_a_request_by_http_brings_its_trace(header: str | None, carried: str | None) -> None:
    seen: list[str | None] = []

    async def app(*_: object) -> None:
        seen.append(ambient_traceparent())

    async def unused(*_: object) -> None:
        raise AssertionError

    headers = [] if header is None else [(b"traceparent", header.encode("latin-1"))]
    await carry_trace(app)({"type": "http", "headers": headers}, unused, unused)

    assert (seen, ambient_traceparent()) == ([carried], None)


def test_a_program_without_opentelemetry_is_in_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")

    assert ambient_traceparent() is None


@pytest.mark.req("ING-10")
async def test_a_message_is_sent_in_the_trace_of_its_case_and_linked_to_its_sender(traced: Telemetry) -> None:
    sent = SentMessage("paid", "m-1", ENTRY, CALLER, "c-1", "m-0")
    with pytest.raises(ValueError, match=SECRET):
        async with traced.tracer().message(sent):
            raise ValueError(SECRET)

    (span,) = traced.spans
    assert (span.name, span.kind, trace_id(span)) == ("publish paid", trace.SpanKind.PRODUCER, ENTRY.hex)
    assert [f"{link.context.trace_id:032x}" for link in span.links] == ["0af7651916cd43dd8448eb211c80319c"]
    assert dict(span.attributes or {}) == {
        "messaging.system": "verbworker",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "paid",
        "messaging.message.id": "m-1",
        "messaging.message.conversation_id": str(ENTRY),
        "verbworker.correlation_id": "c-1",
        "verbworker.causation_id": "m-0",
        "error.type": "ValueError",
    }
    assert SECRET not in span.to_json()


def test_untraced_is_one_span_that_keeps_nothing() -> None:
    with UNTRACED.job(JOB) as first, UNTRACED.job(JOB) as second:
        first.record_claim(make_claim())
        first.record_end("completed")

    assert first is second
    assert not vars(UNTRACED)


async def test_untraced_finds_sends_and_ends_nothing() -> None:
    tracer: Tracer = UNTRACED
    parent = await tracer.find_parent(JOB)
    async with UNTRACED.message(SentMessage("paid", "m-1", ENTRY, None)):
        await UNTRACED.record_case_end(ENTRY, "completed")
    with UNTRACED.request("kyc.check", CALLER) as asked:
        asked.record_entry(ENTRY)

    assert (parent, vars(UNTRACED)) == (None, {})


async def test_the_longest_unused_case_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_telemetry, "_MOST_CASES", 2)
    reads: list[int] = []

    async def read(entry_id: UUID) -> str | None:
        reads.append(entry_id.int)
        return CALLER

    traces = CaseTraces(read)
    for case in (1, 2, 1, 3, 1, 2):
        await traces.find(UUID(int=case))

    assert reads == [1, 2, 3, 2]


def test_a_worker_that_does_not_trace_does_not_load_opentelemetry() -> None:
    look = "import sys, verbworker.app.wiring, verbworker.cli.app; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60)

    assert (done.stdout.strip(), done.stderr) == ("False", "")


@pytest.mark.parametrize("why", ["may_have_twin", "is_element_visited", "may_have_archived"])
def test_a_claim_is_in_doubt_for_each_of_three_reasons(why: str) -> None:
    assert not make_claim().has_doubt
    in_doubt: dict[str, Any] = {why: True}
    assert replace(make_claim(), **in_doubt).has_doubt
