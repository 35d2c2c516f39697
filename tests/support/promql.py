"""PromQL as far as a test needs it: which metrics an expression asks for, and by which labels."""

import re

from verbworker.metrics import REGISTRY

_WORDS = {"by", "without", "on", "ignoring", "and", "or", "unless", "bool", "offset", "group_left", "group_right"}
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
# What Prometheus and Kubernetes add to every series, and what a histogram has.
ADDED = {"instance", "job", "pod", "namespace", "le"}


def exported() -> dict[str, set[str]]:
    """The labels of every series that /metrics shows, by name."""
    series: dict[str, set[str]] = {}
    for collector in list(REGISTRY._collector_to_names):
        labels = set(getattr(collector, "_labelnames", ()))
        for metric in collector.collect():
            series |= {f"{metric.name}{suffix}": labels for suffix in _SUFFIXES[metric.type]}
    return series


def metrics_of(expression: str) -> set[str]:
    """The names of the metrics in an expression."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)", " ", bare)
    names = re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?!\w|\s*\()", bare)
    return {name for name in names if name not in _WORDS}


def labels_of(expression: str) -> set[str]:
    """The labels that an expression groups by or looks at."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    grouped = re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", bare)
    matched = re.findall(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)", " ".join(re.findall(r"\{([^}]*)\}", bare)))
    return {label.strip() for group in grouped for label in group.split(",") if label.strip()} | set(matched)
