"""The page of metrics: every metric with its type and its labels."""

from collections.abc import Iterator
from typing import Any

from docs.generate.markdown import code, sentence, table
from verbworker import metrics


def page() -> str:
    """Return the page of metrics."""
    return (
        "# Metrics\n\n"
        "A worker serves them at `/metrics` on port 8090 (`VERBWORKER_HTTP_PORT`). A label never holds a job key or"
        " data of a case. A counter's name ends in `_total` when it is scraped. The dashboard, the alerts and what to"
        " do about them: [Running verbworker](../how-to/operate.md).\n\n"
        + table(("metric", "type", "labels", "meaning"), sorted(_rows()))
    )


def _rows() -> Iterator[tuple[str, str, str, str]]:
    collectors: dict[Any, Any] = metrics.REGISTRY._collector_to_names
    for collector in collectors:
        for family in collector.describe():
            labels = ", ".join(code(label) for label in getattr(collector, "_labelnames", ()))
            name = f"{family.name}_total" if family.type == "counter" else family.name
            yield code(name), family.type, labels, sentence(family.documentation)
