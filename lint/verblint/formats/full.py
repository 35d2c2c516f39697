"""The format for people: each finding with its source line, a caret under the place, and what to write instead."""

from collections.abc import Iterator

from verblint.bpmn.source import Source
from verblint.report import Finding, Report, Severity, printable, subject

_WIDTH = 100  # columns of the excerpt
_BEFORE = 40  # columns kept before the place
_RESET = "\x1b[0m"
_BOLD = "\x1b[1m"
_COLOURS = {Severity.ERROR: "\x1b[1;31m", Severity.WARNING: "\x1b[1;33m"}


def render(report: Report, *, colour: bool = False) -> str:
    """Render all findings and a summary line."""
    lines = _Lines(report)
    blocks = (_block(finding, lines.of(finding), colour) for finding in report.findings)
    return "".join(block + "\n" for block in blocks) + summary(report) + "\n"


def summary(report: Report) -> str:
    """Summarize the report in one line."""
    counts = {"error": len(report.errors), "warning": len(report.warnings)}
    parts = [_count(number, noun) for noun, number in counts.items() if number] or ["nothing found"]
    if report.suppressed:
        parts.append(f"{len(report.suppressed)} suppressed")
    if report.problems:
        parts.append(f"{len(report.problems)} could not be checked")
    return f"{_count(len(report.files), 'file')} checked: {', '.join(parts)}"


class _Lines:
    """The source lines of findings; the last one is cached, because it may be a whole large file."""

    def __init__(self, report: Report) -> None:
        self._sources = {name: Source(name, content) for name, content in report.sources.items()}
        self._last = ("", 0, "")

    def of(self, finding: Finding) -> str | None:
        """Return the source line of a finding, or None if the file is not available."""
        source = self._sources.get(finding.file)
        if source is None:
            return None
        if self._last[:2] != (finding.file, finding.line):
            self._last = (finding.file, finding.line, source.line(finding.line))
        return self._last[2]


def _block(finding: Finding, line: str | None, colour: bool) -> str:
    place = f"{finding.file}:{finding.line}:{finding.column}"
    level = f"{_COLOURS[finding.severity]}{finding.severity}{_RESET}" if colour else finding.severity
    code = f"{_BOLD}{finding.code}{_RESET}" if colour else finding.code
    lines = [f"{printable(place)}: {level} {code} {finding.slug}", f"  {printable(finding.message)}"]
    if line is not None:
        lines.extend(_excerpt(finding, line))
    if finding.hint:
        lines.append(f"  help: {printable(finding.hint)}")
    if finding.fix is not None:
        lines.append(f"  fix:  {printable(finding.fix.description)} (verblint check --fix)")
    if about := subject(finding):
        lines.append(f"  at:   {printable(about)}")
    return "\n".join(lines) + "\n"


def _excerpt(finding: Finding, text: str) -> Iterator[str]:
    start = finding.column - 1
    end = finding.end_column - 1 if finding.end_line == finding.line else len(text)
    # A model may be one line of two megabytes; only the part around the place is shown.
    first = max(0, start - _BEFORE) if len(text) > _WIDTH else 0
    shown = text[first : first + _WIDTH]
    last = first + len(shown)
    margin = f"  {finding.line} | "
    marks = "^" * max(1, min(end, last) - start)
    yield margin + _flat(shown)
    yield " " * (len(margin) - 2) + "| " + " " * (start - first) + marks


def _flat(text: str) -> str:
    """Make every character one column wide, so that the caret is under its place."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else " " if sign == "\t" else "\N{REPLACEMENT CHARACTER}" for sign in text
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
