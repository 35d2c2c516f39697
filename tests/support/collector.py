"""A real OTLP collector over HTTP that keeps what it was sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.http_server import served
from tests.support.ports import LOOPBACK


class Collector:
    """The spans received so far, by attribute, and the names of metrics."""

    def __init__(self) -> None:
        self.spans: list[dict[str, object]] = []
        self.metrics: set[str] = set()
        self.bodies: list[bytes] = []
        self.address = ""

    def take(self, path: str, body: bytes) -> None:
        """Read one export."""
        self.bodies.append(body)
        if path == "/v1/metrics":
            for described in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics |= {metric.name for scope in described.scope_metrics for metric in scope.metrics}
            return
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    pairs = ((pair.key, pair.value) for pair in span.attributes)
                    told = {key: getattr(value, str(value.WhichOneof("value"))) for key, value in pairs}
                    self.spans.append({"name": span.name, **told})


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector on a port of its own."""
    kept = Collector()

    class CollectorHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((LOOPBACK, 0), CollectorHandler)
    kept.address = f"http://{LOOPBACK}:{server.server_port}"
    with served(server):
        yield kept
