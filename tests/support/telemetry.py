"""OpenTelemetry that keeps its spans and durations in memory."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from verbworker.app.tracing.open_telemetry import CaseTraces, OpenTelemetryTracer, Providers


class Telemetry:
    """Providers, and what was recorded with them."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.providers = Providers(self.provider, MeterProvider([self._reader], shutdown_on_exit=False))

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans in the order in which they ended."""
        return list(self._exporter.get_finished_spans())

    def named(self, start: str) -> list[ReadableSpan]:
        """The spans whose name starts like this."""
        return [span for span in self.spans if span.name.startswith(start)]

    def durations(self, name: str) -> list[tuple[Mapping[str, Any], HistogramDataPoint]]:
        """The points of a histogram, with their attributes."""
        read = self._reader.get_metrics_data()
        found = []
        for resource in read.resource_metrics if read else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        found += [point for point in metric.data.data_points if isinstance(point, HistogramDataPoint)]
        return [(dict(point.attributes or {}), point) for point in found]

    def tracer(self, **traces: str) -> OpenTelemetryTracer:
        """A tracer for cases whose traceparents are known, by entry id."""

        async def read(entry_id: object) -> str | None:
            return traces.get(str(entry_id))

        return self.providers.tracer(CaseTraces(read), system="verbworker")

    @asynccontextmanager
    async def open_providers(self, worker: str) -> AsyncIterator[Providers]:
        """Stand in for the exporters of a process."""
        yield self.providers


def trace_id(span: ReadableSpan) -> str:
    """The trace of a span, as in a traceparent."""
    assert span.context is not None
    return f"{span.context.trace_id:032x}"
