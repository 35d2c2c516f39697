"""SARIF 2.1.0, for code scanning services.

A result's logical location is the BPMN element, and its fingerprint does not depend on the layout, so that moving a
task does not close one alert and open another.
"""

from collections import Counter
from json import dumps
from os import fsencode
from os.path import isabs
from pathlib import Path
from urllib.parse import quote

from verblint.report import Edit, Finding, Fix, Problem, Report, Suppressed, version
from verblint.rule import CRASHED, Rule
from verblint.rules.index import rules

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_FINGERPRINT = "verblintElement/v1"
_ROOT = "%SRCROOT%"
Object = dict[str, object]


def render(report: Report, *, more: tuple[Rule, ...] = ()) -> str:
    """Render one run with all rules, including `more`, and all results, including suppressed ones."""
    known = (*rules(), CRASHED, *more)
    places = {rule.code: index for index, rule in enumerate(known)}
    seen: Counter[str] = Counter()
    results = [_result(finding, places, seen, None) for finding in report.findings]
    results += [_result(entry.finding, places, seen, entry) for entry in report.suppressed]
    run: Object = {
        "tool": {"driver": _driver(known)},
        "columnKind": "unicodeCodePoints",
        "artifacts": [{"location": _location(file)} for file in report.files],
        "invocations": [_invocation(report)],
        "results": results,
    }
    return dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _driver(known: tuple[Rule, ...]) -> Object:
    return {"name": "verblint", "semanticVersion": version(), "rules": [_descriptor(rule) for rule in known]}


def _descriptor(rule: Rule) -> Object:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.slug.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.page},
        "help": {"text": rule.page},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _invocation(report: Report) -> Object:
    return {
        "executionSuccessful": not report.problems,
        "toolExecutionNotifications": [_notification(problem) for problem in report.problems],
    }


def _notification(problem: Problem) -> Object:
    notification: Object = {"level": "error", "message": {"text": str(problem)}}
    if problem.subject:
        notification["locations"] = [{"physicalLocation": {"artifactLocation": _location(problem.subject)}}]
    return notification


def _result(finding: Finding, places: dict[str, int], seen: Counter[str], entry: Suppressed | None) -> Object:
    identity = f"{finding.file}\0{finding.fingerprint}"
    seen[identity] += 1
    number = f":{seen[identity]}" if seen[identity] > 1 else ""
    result: Object = {
        "ruleId": finding.code,
        "ruleIndex": places[finding.code],
        "level": finding.severity.value,
        "message": {"text": f"{finding.message}. {finding.hint}" if finding.hint else finding.message},
        "locations": [_place(finding)],
        "partialFingerprints": {_FINGERPRINT: finding.fingerprint + number},
        "suppressions": [] if entry is None else [_suppression(entry)],
    }
    if finding.fix is not None:
        result["fixes"] = [_fix(finding.fix, finding.file)]
    return result


def _place(finding: Finding) -> Object:
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    place: Object = {"physicalLocation": {"artifactLocation": _location(finding.file), "region": region}}
    if finding.element_id:
        path = [part for part in (finding.process_id, finding.element_id) if part]
        place["logicalLocations"] = [
            {
                "name": finding.element_id,
                "fullyQualifiedName": "/".join(dict.fromkeys(path)),
                "kind": "element",
            }
        ]
    return place


def _suppression(entry: Suppressed) -> Object:
    return {"kind": "inSource" if entry.is_in_model else "external", "justification": entry.reason}


def _fix(fix: Fix, file: str) -> Object:
    change = {"artifactLocation": _location(file), "replacements": [_replacement(edit) for edit in fix.edits]}
    return {"description": {"text": fix.description}, "artifactChanges": [change]}


def _replacement(edit: Edit) -> Object:
    return {
        "deletedRegion": {"byteOffset": edit.start, "byteLength": edit.end - edit.start},
        "insertedContent": {"text": edit.replacement.decode("utf-8", "replace")},
    }


def _location(file: str) -> Object:
    if isabs(file):
        return {"uri": Path(file).as_uri()}
    return {"uri": quote(fsencode(file).replace(b"\\", b"/")), "uriBaseId": _ROOT}
