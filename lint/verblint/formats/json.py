"""Findings as JSON, for other tools."""

from collections import Counter
from json import dumps

from verblint.report import Finding, Fix, Report, version

LAYOUT = 1  # raised when the output's form changes


def render(report: Report) -> str:
    """Render one JSON object; `layout` changes with every incompatible change."""
    document = {
        "layout": LAYOUT,
        "version": version(),
        "files": list(report.files),
        "findings": [as_object(finding) for finding in report.findings],
        "suppressed": [
            as_object(entry.finding) | {"reason": entry.reason, "by": "model" if entry.is_in_model else "baseline"}
            for entry in report.suppressed
        ],
        "problems": [{"subject": problem.subject, "message": problem.message} for problem in report.problems],
        "statistics": dict(sorted(Counter(finding.code for finding in report.findings).items())),
    }
    return dumps(document, indent=2) + "\n"


def as_object(finding: Finding) -> dict[str, object]:
    """Convert a finding to a JSON object."""
    return {
        "code": finding.code,
        "rule": finding.slug,
        "severity": finding.severity.value,
        "message": finding.message,
        "hint": finding.hint,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "end_line": finding.end_line,
        "end_column": finding.end_column,
        "element": {"id": finding.element_id, "name": finding.element_name, "type": finding.element_type},
        "process": finding.process_id,
        "fingerprint": finding.fingerprint,
        "fix": _fix(finding.fix) if finding.fix is not None else None,
    }


def _fix(fix: Fix) -> dict[str, object]:
    edits = [
        {"start": edit.start, "end": edit.end, "replacement": edit.replacement.decode("utf-8", "replace")}
        for edit in fix.edits
    ]
    return {"description": fix.description, "edits": edits}
