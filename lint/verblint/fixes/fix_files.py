"""Apply the fixes of a report: write them to the files or show a diff."""

import sys

from verblint.fixes.edits import UnsafeFix, diff, repair
from verblint.fixes.write import write_whole
from verblint.linter import Linter
from verblint.report import Problem, Report
from verblint.startup.value import replace


def apply_fixes(linter: Linter, report: Report, *, write: bool) -> tuple[Report, str]:
    """Return the report after all fixes, and their diff; without `write` the findings stay."""
    changes = []
    for file in dict.fromkeys(finding.file for finding in report.findings if finding.fix is not None):
        try:
            repaired = repair(linter, report.sources[file], file)
            changes.append(diff(report.sources[file], repaired.content, file))
            if write:
                _store(file, report.sources[file], repaired.content)
                sys.stderr.write(f"verblint: {file}: {repaired.applied} fixed\n")
                report = _replace_results(report, file, repaired.report)
        except (UnsafeFix, OSError) as error:
            message = str(error) if isinstance(error, UnsafeFix) else f"not fixed: {error.strerror}"
            report = replace(report, problems=(*report.problems, Problem(file, message)))
    return report, "".join(changes)


def _store(file: str, before: bytes, after: bytes) -> None:
    with open(file, "rb") as opened:
        if opened.read(len(before) + 1) != before:
            raise UnsafeFix("not fixed: the file was changed while it was checked")
    write_whole(file, after)


def _replace_results(report: Report, file: str, newer: Report) -> Report:
    """Return the report with one file's results replaced."""
    return replace(
        report,
        findings=(*(finding for finding in report.findings if finding.file != file), *newer.findings),
        suppressed=(*(entry for entry in report.suppressed if entry.finding.file != file), *newer.suppressed),
        sources={**report.sources, **newer.sources},
    )
