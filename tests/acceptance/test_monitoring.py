"""The dashboard and the alerts ask only for what a worker exports."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli_walk import commands_in, misuse
from tests.support.promql import ADDED, exported, labels_of, metrics_of
from verbworker.contract.message import UndeliverableCode
from verbworker.job.outcome import Incident, JobResult, Retry, Thrown, Yielded

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy/grafana/dashboard.json").read_text())
ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())
ADAPTER = yaml.safe_load((ROOT / "deploy/prometheus/adapter.yaml").read_text())
RETURNS = "verbworker/work/jobs/verdicts.py"
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression with the name of where it stands."""
    for panel in PANELS:
        for target in panel["targets"]:
            yield f"panel {panel['title']} {target['refId']}", target["expr"]
    for rule in RULES:
        yield f"alert {rule['alert']}", rule["expr"]
    for kind in ("custom", "external"):
        for rule in ADAPTER["rules"][kind]:
            yield f"adapter {rule['name']['as']}", re.sub(r"<<\.\w+>>", "", rule["metricsQuery"])
            yield f"adapter series {rule['name']['as']}", rule["seriesQuery"]


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_an_expression_asks_for_what_is_exported(where: str, expression: str) -> None:
    known = exported()
    asked = metrics_of(expression)

    assert asked, where
    assert asked <= known.keys(), where
    assert labels_of(expression) <= set().union(*(known[name] for name in asked)) | ADDED, where


def test_a_value_that_is_looked_for_is_one_that_a_label_takes() -> None:
    outcomes = {kind.label for kind in (JobResult, Thrown, Retry, Yielded, Incident)} | {
        "published",
        *UndeliverableCode,
    }
    answers = set(re.findall(r'(?:_settled|_unusual|labels)\(.*"([a-z ]+)"', (ROOT / RETURNS).read_text()))
    taken = {"outcome": outcomes, "answer": answers, "kind": {"new", "retry", "takeover", "release", "bug"}}

    looked_for = {pair for _, text in expressions() for pair in re.findall(r'(\w+)!?="([^"]+)"', text)}

    assert {"ok", "gone", "unavailable", "refused"} <= answers
    assert len(looked_for) >= 5
    assert {(label, value) for label, value in looked_for if value not in taken[label]} == set()


def test_everything_that_is_exported_is_on_the_dashboard() -> None:
    shown = set().union(*(metrics_of(target["expr"]) for panel in PANELS for target in panel["targets"]))
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported()}

    assert families == {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}


def test_a_label_in_a_legend_is_one_that_the_expression_keeps() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert legend <= labels_of(target["expr"]), panel["title"]


def test_the_panels_have_their_own_numbers_and_places() -> None:
    def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
        place = panel["gridPos"]
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        return {(column, row) for column in columns for row in rows}

    everything = DASHBOARD["panels"]
    taken = [cell for panel in everything for cell in cells(panel)]
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len(set(taken)) == len(taken)
    assert max(column for column, _ in taken) < 24
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${source}"}


def test_an_alert_says_how_bad_it_is_and_what_happened() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}, rule["alert"]
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s")), rule["alert"]
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


def test_the_commands_of_alerts_and_panels_exist() -> None:
    texts = [rule["annotations"]["description"] for rule in RULES]
    texts += [f"`{panel['description']}`" for panel in PANELS if panel["description"].startswith("verbworker ")]

    wrong = {" ".join(words): misuse(words) for text in texts for words in commands_in(text)}

    assert len(wrong) >= 3
    assert {line: problem for line, problem in wrong.items() if problem} == {}


def test_every_alert_has_its_line_on_the_operators_page() -> None:
    page = (ROOT / "deploy/README.md").read_text()

    assert re.findall(r"^\| (Verbworker\w+) \|", page, re.MULTILINE) == [rule["alert"] for rule in RULES]
