"""Fixing: the safe rewrites that findings carry, applied to bytes so that layout and diagram stay as they are."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from difflib import unified_diff

from verblint.linter import Linter
from verblint.report.finding import Edit, Finding, Fix
from verblint.report.report import Report
from verblint.startup.value import value

# A fix may uncover the next one; a chain longer than this is a circle.
_ROUNDS = 10


class UnsafeFix(Exception):
    """Fixes that cannot be trusted; nothing was written. The message says why."""


@value
class Repair:
    """What came of fixing one file: its new bytes, how many fixes they hold, and the report on them."""

    content: bytes
    applied: int
    report: Report


def repair(linter: Linter, content: bytes, name: str) -> Repair:
    """Apply every fix that can be applied, looking at the file anew after each round, or raise UnsafeFix."""
    report = linter.lint(content, name)
    applied = 0
    for _ in range(_ROUNDS):
        fixes = compatible(report.findings)
        if not fixes:
            break
        mended = apply(content, fixes)
        after = linter.lint(mended, name)
        if _unsafe(after) - _unsafe(report):
            raise UnsafeFix("not fixed: after the fixes the file could not be read")
        content, report, applied = mended, after, applied + len(fixes)
    return Repair(content, applied, report)


def _unsafe(report: Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.code.startswith("HB0")}


def compatible(findings: Iterable[Finding]) -> list[Fix]:
    """The fixes of some findings, without those that would touch the bytes of an earlier one."""
    chosen: dict[tuple[Edit, ...], Fix] = {}
    taken: list[Edit] = []
    for finding in findings:
        fix = finding.fix
        # Two findings may ask for the same rewrite; that is one.
        if fix is None or fix.edits in chosen or any(_touches(edit, taken) for edit in fix.edits):
            continue
        chosen[fix.edits] = fix
        for edit in fix.edits:
            insort(taken, edit, key=_start)
    return list(chosen.values())


def apply(content: bytes, fixes: Iterable[Fix]) -> bytes:
    """The bytes after some fixes that do not overlap."""
    pieces = []
    at = 0
    for edit in sorted((edit for fix in fixes for edit in fix.edits), key=_start):
        pieces += [content[at : edit.start], edit.replacement]
        at = edit.end
    return b"".join((*pieces, content[at:]))


def diff(before: bytes, after: bytes, name: str) -> str:
    """A unified diff of two versions of a file; empty when they are the same."""
    old, new = (content.decode("utf-8", "replace").splitlines(keepends=True) for content in (before, after))
    lines = unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _touches(edit: Edit, taken: list[Edit]) -> bool:
    """True when an edit shares a byte with one of those taken, or writes at the same place."""
    at = bisect_left(taken, edit.start, key=_start)
    is_reached = at > 0 and taken[at - 1].end > edit.start
    return is_reached or (at < len(taken) and (taken[at].start == edit.start or taken[at].start < edit.end))


def _start(edit: Edit) -> int:
    return edit.start
