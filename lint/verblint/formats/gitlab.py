"""GitLab's Code Quality report, shown in merge requests."""

from collections import Counter
from hashlib import sha256
from json import dumps

from verblint.report import Report, Severity

_LEVELS = {Severity.ERROR: "major", Severity.WARNING: "minor"}


def render(report: Report) -> str:
    """Render a JSON list. GitLab merges equal fingerprints, so each one includes the file and a counter."""
    seen: Counter[str] = Counter()
    entries: list[dict[str, object]] = []
    for finding in report.findings:
        identity = f"{finding.file}\0{finding.fingerprint}"
        seen[identity] += 1
        message = f"{finding.message}. {finding.hint}" if finding.hint else finding.message
        entries.append(
            _entry(
                finding.code,
                message,
                f"{identity}\0{seen[identity]}",
                _LEVELS[finding.severity],
                finding.file,
                finding.line,
            )
        )
    for problem in report.problems:
        identity = f"{problem.subject}\0{problem.message}"
        entries.append(_entry("could-not-check", problem.message, identity, "blocker", problem.subject, 1))
    return dumps(entries, indent=2) + "\n"


def _entry(name: str, message: str, identity: str, level: str, path: str, line: int) -> dict[str, object]:
    return {
        "description": message,
        "check_name": name,
        "fingerprint": sha256(identity.encode("utf-8", "surrogateescape")).hexdigest(),
        "severity": level,
        "location": {"path": path, "lines": {"begin": line}},
    }
