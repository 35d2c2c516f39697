"""The reader of PromQL that holds dashboards and alerts to what is exported."""

import pytest

from tests.support.promql import exported, labels_of, metrics_of


@pytest.mark.parametrize(
    ("expression", "metrics", "labels"),
    [
        ("up", {"up"}, set()),
        ('max(held{job="x"}) > 0', {"held"}, {"job"}),
        ('sum by (verb, kind) (rate(claims_total{kind!="new"}[5m]))', {"claims_total"}, {"verb", "kind"}),
        ("sum(a) by (verb) / on (verb) sum(b) by (verb)", {"a", "b"}, {"verb"}),
        ("histogram_quantile(0.95, sum by (le) (rate(x_bucket[$__rate_interval])))", {"x_bucket"}, {"le"}),
        ('absent(lag) or vector(1) and on () x{a=~"b{c}"}', {"lag", "x"}, {"a"}),
    ],
)
def test_an_expression_is_read(expression: str, metrics: set[str], labels: set[str]) -> None:
    assert metrics_of(expression) == metrics
    assert labels_of(expression) == labels


def test_what_is_exported_has_the_names_that_prometheus_sees() -> None:
    series = exported()

    assert series["verbworker_claims_total"] == {"verb", "kind"}
    assert series["verbworker_job_seconds_bucket"] == {"verb"}
    assert series["verbworker_held_frames"] == set()
    assert "verbworker_claims" not in series
