"""Apply the safe fixes of findings to bytes, so that layout and diagram do not change."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from difflib import unified_diff

from verblint.linter import Linter
from verblint.report import Edit, Finding, Fix, Report
from verblint.startup.value import value

# A fix may expose another finding; a longer chain is a cycle.
_ROUNDS = 10


class UnsafeFix(Exception):
    """Fixes that are not safe to apply; nothing was written."""


@value
class Repair:
    """The result of fixing one file: its new bytes, the number of fixes applied, and the report on them."""

    content: bytes
    applied: int
    report: Report


def repair(linter: Linter, content: bytes, name: str) -> Repair:
    """Apply every possible fix, checking the file again after each round, or raise UnsafeFix."""
    report = linter.lint(content, name)
    applied = 0
    for _ in range(_ROUNDS):
        fixes = compatible(report.findings)
        if not fixes:
            break
        fixed = apply(content, fixes)
        after = linter.lint(fixed, name)
        if _unsafe(after) - _unsafe(report):
            raise UnsafeFix("not fixed: after the fixes the file could not be read")
        content, report, applied = fixed, after, applied + len(fixes)
    return Repair(content, applied, report)


def _unsafe(report: Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.code.startswith("HB0")}


def compatible(findings: Iterable[Finding]) -> list[Fix]:
    """Return the fixes of findings, without those that touch the bytes of an earlier fix."""
    chosen: dict[tuple[Edit, ...], Fix] = {}
    taken: list[Edit] = []
    for finding in findings:
        fix = finding.fix
        # Two findings may have the same fix; it is applied once.
        if fix is None or fix.edits in chosen or any(_touches(edit, taken) for edit in fix.edits):
            continue
        chosen[fix.edits] = fix
        for edit in fix.edits:
            insort(taken, edit, key=_start)
    return list(chosen.values())


def apply(content: bytes, fixes: Iterable[Fix]) -> bytes:
    """Apply fixes that do not overlap and return the new bytes."""
    pieces = []
    at = 0
    for edit in sorted((edit for fix in fixes for edit in fix.edits), key=_start):
        pieces += [content[at : edit.start], edit.replacement]
        at = edit.end
    return b"".join((*pieces, content[at:]))


def diff(before: bytes, after: bytes, name: str) -> str:
    """Return a unified diff of two versions of a file; empty if they are equal."""
    old, new = (content.decode("utf-8", "replace").splitlines(keepends=True) for content in (before, after))
    lines = unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _touches(edit: Edit, taken: list[Edit]) -> bool:
    """Return whether an edit shares a byte with a taken one, or starts at the same byte."""
    at = bisect_left(taken, edit.start, key=_start)
    is_reached = at > 0 and taken[at - 1].end > edit.start
    return is_reached or (at < len(taken) and (taken[at].start == edit.start or taken[at].start < edit.end))


def _start(edit: Edit) -> int:
    return edit.start
