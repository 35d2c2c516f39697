"""SARIF 2.1.0: what the standard requires of the parts we write, checked by hand and without its schema."""

import json
from typing import Any
from urllib.parse import unquote

import pytest

from tests.support.lint_models import BARE, BROKEN, SUPPRESSED, model
from verblint.linter import lint
from verblint.report import Problem, Report, Suppressed, render
from verblint.rules.index import rules

LEVELS = ("none", "note", "warning", "error")


def log(report: Report) -> Any:
    return json.loads(render(report, "sarif"))


def run(report: Report) -> Any:
    (only,) = log(report)["runs"]
    return only


def results(report: Report) -> Any:
    return run(report)["results"]


def test_the_log_names_its_version_and_schema() -> None:
    document = log(lint(BARE))

    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")


def test_the_tool_brings_its_rules_with_help() -> None:
    driver = run(lint(BARE))["tool"]["driver"]

    assert driver["name"] == "verblint"
    assert {rule.code for rule in rules()} < {rule["id"] for rule in driver["rules"]}
    assert len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"])
    for rule in driver["rules"]:
        assert rule["name"].isalnum()
        assert rule["shortDescription"]["text"]
        assert "Wrong:" in rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in LEVELS


def test_a_result_points_to_its_rule_its_place_and_its_element() -> None:
    document = run(lint(BARE, name="models/bare.bpmn"))
    (result,) = document["results"]
    (location,) = result["locations"]

    assert document["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "HB215"
    assert result["level"] in LEVELS
    assert result["message"]["text"].startswith("the flag orch_ready is used alone")
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "models/bare.bpmn", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 10, "startColumn": 29, "endLine": 10, "endColumn": 39},
    }
    assert location["logicalLocations"] == [{"name": "yes", "fullyQualifiedName": "case/yes", "kind": "element"}]
    assert document["columnKind"] == "unicodeCodePoints"


def test_regions_count_from_one_and_end_behind_their_start() -> None:
    for content in (BARE, BROKEN, model("=count(orch_x)")):
        for result in results(lint(content)):
            region = result["locations"][0]["physicalLocation"]["region"]
            assert min(region.values()) >= 1
            assert (region["startLine"], region["startColumn"]) < (region["endLine"], region["endColumn"])


def test_fingerprints_survive_layout_and_tell_findings_apart() -> None:
    def prints(content: bytes) -> list[str]:
        return [result["partialFingerprints"]["verblintElement/v1"] for result in results(lint(content))]

    two = model("=orch_a and orch_b")
    assert prints(two) == prints(two.replace(b"    <", b"\n  <"))
    assert len(set(prints(two))) == 2


def test_equal_fingerprints_of_one_file_are_numbered() -> None:
    report = Report.of([lint(BARE, name="a"), lint(BARE, name="a"), lint(BARE, name="b")])
    prints = [result["partialFingerprints"]["verblintElement/v1"] for result in results(report)]

    assert [text.partition(":")[2] for text in prints] == ["", "2", ""]


def test_suppressed_results_are_marked_with_their_justification() -> None:
    known = Suppressed(lint(BARE).findings[0], "in the baseline", False)
    report = Report.of([lint(SUPPRESSED), lint(BARE), Report(suppressed=(known,))])

    assert [result["suppressions"] for result in results(report)] == [
        [],
        [{"kind": "inSource", "justification": "it is set at the start"}],
        [{"kind": "external", "justification": "in the baseline"}],
    ]


def test_a_fix_replaces_bytes() -> None:
    (result,) = results(lint(BARE))
    (fix,) = result["fixes"]
    (change,) = fix["artifactChanges"]
    (replacement,) = change["replacements"]

    start = replacement["deletedRegion"]["byteOffset"]
    assert BARE[:start].endswith(b"=orch_ready")
    assert replacement["deletedRegion"]["byteLength"] == 0
    assert replacement["insertedContent"] == {"text": " = true"}


def test_what_could_not_be_checked_makes_the_run_unsuccessful() -> None:
    problems = (Problem("gone.bpmn", "No such file"), Problem("", "nothing matches"))
    (invocation,) = run(Report(problems=problems))["invocations"]

    assert invocation["executionSuccessful"] is False
    first, second = invocation["toolExecutionNotifications"]
    assert first["message"]["text"] == "gone.bpmn: No such file"
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "gone.bpmn"
    assert "locations" not in second


def test_a_clean_run_is_successful_and_lists_its_files() -> None:
    document = run(lint(model(), name="a b.bpmn"))

    assert document["results"] == []
    assert document["invocations"][0]["executionSuccessful"] is True
    assert document["artifacts"] == [{"location": {"uri": "a%20b.bpmn", "uriBaseId": "%SRCROOT%"}}]


@pytest.mark.parametrize("name", ["a b.bpmn", "ä/#1.bpmn", "a%20b.bpmn", "a\\b.bpmn"])
def test_a_file_is_a_valid_reference(name: str) -> None:
    (artifact,) = run(lint(model(), name=name))["artifacts"]

    assert artifact["location"]["uri"].isascii()
    assert " " not in artifact["location"]["uri"]
    assert unquote(artifact["location"]["uri"]) == name.replace("\\", "/")


def test_an_absolute_file_stands_for_itself() -> None:
    (artifact,) = run(lint(model(), name="/work/a.bpmn"))["artifacts"]

    assert artifact["location"] == {"uri": "file:///work/a.bpmn"}
