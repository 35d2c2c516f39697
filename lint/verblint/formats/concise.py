"""One line per finding, like compiler output."""

from verblint.report import Report, printable


def render(report: Report) -> str:
    """Render each finding as `file:line:column: CODE message [element]`."""
    lines = (
        f"{finding.file}:{finding.line}:{finding.column}: {finding.code} {finding.message}"
        + (f" [{finding.element_id}]" if finding.element_id else "")
        for finding in report.findings
    )
    return "".join(printable(line) + "\n" for line in lines)
