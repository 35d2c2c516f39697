"""Spans: one per delivery, with names and numbers and no words of a payload."""

import subprocess
import sys
from datetime import UTC, datetime
from uuid import UUID

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.frames import make_job
from verbworker.app.tracing import JobTracer
from verbworker.job.frame import Claim
from verbworker.job.trace import UNTRACED

SECRET = "a-secret-diamond"
JOB = make_job(7, variables={"domain_payload": SECRET}, headers={"note": SECRET})


class Traced:
    """A tracer and the spans it ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = JobTracer(self.provider)

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order in which they ended."""
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def traced() -> Traced:
    return Traced()


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


def test_a_span_tells_verb_try_and_outcome(traced: Traced) -> None:
    with traced.tracer.job(JOB) as span:
        span.record_claim(make_claim())
        span.record_end("completed")

    (told,) = traced.spans
    assert (told.name, told.kind, told.status.status_code) == (
        "kyc.check",
        trace.SpanKind.CONSUMER,
        trace.StatusCode.UNSET,
    )
    assert dict(told.attributes or {}) == {
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
def test_a_verdict_is_no_error(outcome: str, status: trace.StatusCode, traced: Traced) -> None:
    with traced.tracer.job(JOB) as span:
        span.record_end(outcome)

    assert traced.spans[0].status.status_code is status


def test_an_error_on_its_way_through_leaves_no_words(traced: Traced) -> None:
    with pytest.raises(ValueError, match=SECRET), traced.tracer.job(JOB):
        raise ValueError(SECRET)

    assert SECRET not in traced.spans[0].to_json()


def test_a_verbs_own_spans_lie_inside(traced: Traced) -> None:
    with traced.tracer.job(JOB), traced.provider.get_tracer("mine").start_as_current_span("mine"):
        pass

    inner, outer = traced.spans
    assert inner.parent is not None
    assert outer.context is not None
    assert (inner.name, inner.parent.span_id) == ("mine", outer.context.span_id)


def test_untraced_is_one_span_that_keeps_nothing() -> None:
    with UNTRACED.job(JOB) as first, UNTRACED.job(JOB) as second:
        first.record_claim(make_claim())
        first.record_end("completed")

    assert first is second
    assert not vars(UNTRACED)


def test_a_worker_that_does_not_trace_does_not_load_opentelemetry() -> None:
    look = "import sys, verbworker.app.wiring, verbworker.cli.app; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60)

    assert (done.stdout.strip(), done.stderr) == ("False", "")
