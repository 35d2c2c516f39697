"""OpenTelemetry: one span per job, exported as the usual OTEL_* variables configure. Imported only when enabled."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span as OpenSpan
from opentelemetry.trace import SpanKind, Status, StatusCode

from verbworker.job.frame import Claim
from verbworker.job.job import Job
from verbworker.job.trace import Span

_WELL = ("completed", "thrown", "not claimed")


@asynccontextmanager
async def tracing(worker: str) -> AsyncIterator["JobTracer"]:
    """Open a tracer; its spans are sent before the block ends."""
    resource = Resource.create({"service.name": "verbworker", "service.instance.id": worker})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield JobTracer(provider)
    finally:
        # Shutdown waits for the collector as long as one export may take, so it runs in a thread.
        await asyncio.to_thread(provider.shutdown)


class JobTracer:
    """Makes a span for each delivery. It is current while the verb runs, so the verb's own spans nest in it."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("verbworker", version("verbworker"))

    @contextmanager
    def job(self, job: Job) -> Iterator[Span]:
        """Open a span named after the verb. It holds names and numbers, never a process variable."""
        with self._tracer.start_as_current_span(
            job.type,
            kind=SpanKind.CONSUMER,
            attributes={
                "verbworker.verb": job.type,
                "verbworker.job_key": job.key,
                "verbworker.process": job.process_id,
                "verbworker.element": job.element_id,
                "verbworker.instance_key": job.process_instance_key,
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield JobSpan(span)


class JobSpan:
    """One job's span."""

    def __init__(self, span: OpenSpan) -> None:
        self._span = span

    def record_claim(self, claim: Claim) -> None:
        """Record which attempt this is, and how it was claimed."""
        self._span.set_attribute("verbworker.attempt", claim.runs)
        self._span.set_attribute("verbworker.epoch", claim.epoch)
        self._span.set_attribute("verbworker.claim", claim.claimed_from)

    def record_end(self, outcome: str) -> None:
        """Record the outcome; anything but a verdict is marked as an error."""
        self._span.set_attribute("verbworker.outcome", outcome)
        if outcome not in _WELL:
            self._span.set_status(Status(StatusCode.ERROR, outcome))
