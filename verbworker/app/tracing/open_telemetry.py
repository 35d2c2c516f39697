"""OpenTelemetry by its messaging conventions, exported as the usual OTEL_* variables say. Imported only if enabled.

One trace per case: the request that started it is the parent of every span of its jobs, of the messages sent to it, and
of its end.
"""

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from uuid import UUID

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, get_current_span
from opentelemetry.trace import Span as OpenSpan
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from verbworker.errors import StoreError
from verbworker.job.frame import Claim
from verbworker.job.job import ENTRY_ID, Job
from verbworker.job.trace import RequestSpan, SentMessage, Span
from verbworker.job.trace_context import ambient_traceparent, format_traceparent, traceparent_of_entry

_WELL = ("completed", "thrown", "not claimed")
_W3C = TraceContextTextMapPropagator()
# As the conventions advise for messaging.process.duration.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
# A busy worker sees some thousand cases at a time; a case that is not among them costs a statement per job.
_MOST_CASES = 10_000


@dataclass(frozen=True, slots=True)
class Providers:
    """Where spans and durations go."""

    spans: TracerProvider
    metrics: MeterProvider

    def tracer(self, traces: "CaseTraces", *, system: str) -> "OpenTelemetryTracer":
        """Return a tracer that sends there."""
        return OpenTelemetryTracer(self, traces, system=system)


@asynccontextmanager
async def open_providers(worker: str) -> AsyncIterator[Providers]:
    """Open the exporters of one process; everything is sent before the block ends."""
    resource = Resource.create({"service.name": "verbworker", "service.instance.id": worker})
    spans = TracerProvider(resource=resource, shutdown_on_exit=False)
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    wants_metrics = os.environ.get("OTEL_METRICS_EXPORTER", "otlp") != "none"
    readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if wants_metrics else []
    metrics = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
    try:
        yield Providers(spans, metrics)
    finally:
        # Shutdown waits for the collector as long as one export may take, so it runs in threads.
        await asyncio.gather(asyncio.to_thread(spans.shutdown), asyncio.to_thread(metrics.shutdown))


class CaseTraces:
    """The trace of each case, read once and remembered while the case is busy."""

    def __init__(self, read: Callable[[UUID], Awaitable[str | None]]) -> None:
        self._read = read
        self._known: OrderedDict[UUID, str] = OrderedDict()

    async def find(self, entry_id: UUID) -> str:
        """Return the traceparent of a case: the one it was started with, otherwise one made of its id."""
        known = self._known.get(entry_id)
        if known is not None:
            self._known.move_to_end(entry_id)
            return known
        try:
            found = await self._read(entry_id)
        except StoreError:
            # A trace is never a reason to hold up a job.
            return traceparent_of_entry(entry_id)
        self._known[entry_id] = found or traceparent_of_entry(entry_id)
        if len(self._known) > _MOST_CASES:
            self._known.popitem(last=False)
        return self._known[entry_id]


class OpenTelemetryTracer:
    """Makes the spans of requests, jobs, messages and ends. They hold names and numbers, never a process variable."""

    def __init__(self, providers: Providers, traces: CaseTraces, *, system: str) -> None:
        self._tracer = providers.spans.get_tracer("verbworker", version("verbworker"))
        self._durations = providers.metrics.get_meter("verbworker", version("verbworker")).create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._traces = traces
        self._system = system

    async def find_parent(self, job: Job) -> str | None:
        """Return the trace of a job's case; None if it has none."""
        try:
            entry_id = UUID(str(job.variables.get(ENTRY_ID)))
        except ValueError:
            return None
        return await self._traces.find(entry_id)

    @contextmanager
    def job(self, job: Job, parent: str | None = None) -> Iterator[Span]:
        """Open a span for one delivery. It is current while the verb runs, so the verb's own spans nest in it."""
        attributes: dict[str, str | int] = {
            **self._operation("process", "process", job.type, message_id=str(job.key)),
            "verbworker.verb": job.type,
            "verbworker.job_key": job.key,
            "verbworker.process": job.process_id,
            "verbworker.element": job.element_id,
            "verbworker.instance_key": job.process_instance_key,
        }
        entry_id = job.variables.get(ENTRY_ID)
        if isinstance(entry_id, str):
            attributes["messaging.message.conversation_id"] = entry_id
        began = time.perf_counter()
        with self._open(f"process {job.type}", SpanKind.CONSUMER, attributes, _context(parent)) as span:
            job_span = JobSpan(span)
            try:
                yield job_span
            finally:
                if job_span.outcome != "not claimed":
                    self._record(job.type, time.perf_counter() - began, job_span.error_type)

    @contextmanager
    def request(self, verb: str, traceparent: str | None) -> Iterator[RequestSpan]:
        """Open the span that all spans of a case lie below."""
        attributes = self._operation("start", "send", verb)
        parent = _context(traceparent or ambient_traceparent())
        with self._open(f"start {verb}", SpanKind.PRODUCER, attributes, parent) as span:
            context = span.get_span_context()
            own = format_traceparent(context.trace_id, context.span_id, int(context.trace_flags))

            def record(entry_id: UUID) -> None:
                span.set_attribute("messaging.message.id", str(entry_id))
                span.set_attribute("messaging.message.conversation_id", str(entry_id))

            try:
                yield RequestSpan(own, record)
            except Exception as error:
                _mark(span, type(error).__name__)
                raise

    @asynccontextmanager
    async def message(self, sent: SentMessage) -> AsyncIterator[None]:
        """Open a span in the trace of the case that a message is for, linked to the trace of its sender."""
        attributes = {
            **self._operation("publish", "send", sent.name, message_id=sent.message_id),
            "messaging.message.conversation_id": str(sent.entry_id),
            **_optional_attribute("verbworker.correlation_id", sent.correlation_id),
            **_optional_attribute("verbworker.causation_id", sent.causation_id),
        }
        parent = _context(await self._traces.find(sent.entry_id))
        sender = _span_context(sent.traceparent)
        links = [] if sender is None else [Link(sender)]
        with self._open(f"publish {sent.name}", SpanKind.PRODUCER, attributes, parent, links) as span:
            try:
                yield
            except Exception as error:
                _mark(span, type(error).__name__)
                raise

    async def record_case_end(self, entry_id: UUID, status: str) -> None:
        """Add the last span of a case; it lasts no time, the trace from its first span to this one is the case."""
        attributes = {"verbworker.status": status, "messaging.message.conversation_id": str(entry_id)}
        parent = _context(await self._traces.find(entry_id))
        with self._open("end case", SpanKind.INTERNAL, attributes, parent) as span:
            if status != "completed":
                _mark(span, status)

    def _operation(self, name: str, kind: str, destination: str, *, message_id: str | None = None) -> dict[str, str]:
        attributes = {
            "messaging.system": self._system,
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
            "messaging.destination.name": destination,
        }
        return attributes if message_id is None else {**attributes, "messaging.message.id": message_id}

    @contextmanager
    def _open(
        self,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, str | int],
        parent: Context | None,
        links: "list[Link] | None" = None,
    ) -> Iterator[OpenSpan]:
        # An exception may hold words of a payload: its type is recorded by us, nothing else of it.
        with self._tracer.start_as_current_span(
            name,
            context=parent,
            kind=kind,
            attributes=attributes,
            links=links or (),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield span

    def _record(self, verb: str, seconds: float, error_type: str | None) -> None:
        attributes = {
            "messaging.system": self._system,
            "messaging.operation.name": "process",
            "messaging.destination.name": verb,
        }
        self._durations.record(seconds, attributes if error_type is None else {**attributes, "error.type": error_type})


class JobSpan:
    """One job's span."""

    def __init__(self, span: OpenSpan) -> None:
        self._span = span
        self.outcome: str | None = None
        self.error_type: str | None = None

    def record_claim(self, claim: Claim) -> None:
        """Record which attempt this is, and how it was claimed."""
        self._span.set_attribute("verbworker.attempt", claim.runs)
        self._span.set_attribute("verbworker.epoch", claim.epoch)
        self._span.set_attribute("verbworker.claim", claim.claimed_from)

    def record_end(self, outcome: str, error: str | None = None) -> None:
        """Record the outcome; anything but a verdict is an error, of the given class or else named like the outcome."""
        self.outcome = outcome
        self._span.set_attribute("verbworker.outcome", outcome)
        if outcome not in _WELL:
            self.error_type = error or outcome
            _mark(self._span, self.error_type, outcome)


def _mark(span: OpenSpan, error_type: str, words: str | None = None) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR, words or error_type))


def _optional_attribute(name: str, value: str | None) -> dict[str, str]:
    return {} if value is None else {name: value}


def _context(traceparent: str | None) -> Context | None:
    """Return the context of a traceparent; None, which means the current one, without a valid one."""
    return None if traceparent is None else _W3C.extract({"traceparent": traceparent})


def _span_context(traceparent: str | None) -> SpanContext | None:
    context = None if traceparent is None else get_current_span(_context(traceparent)).get_span_context()
    return context if context is not None and context.is_valid else None
