"""Findings: what one look came to, in three words that a program can tell apart."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a thing is: well, worth a look, or in the way of work."""

    OK = "ok"
    WARN = "warn"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: what was looked at, how it is, what was found, and what to do unless it is well.

    What is not known cannot carry what stands on it: those checks are not made.
    """

    check: str
    verdict: Verdict
    found: str
    fix: str = ""
    is_known: bool = True


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, Verdict.OK, found)


def warn(check: str, found: str, fix: str) -> Finding:
    """It works, and somebody should look."""
    return Finding(check, Verdict.WARN, found, fix)


def wrong(check: str, found: str, fix: str) -> Finding:
    """It does not work until somebody changes something."""
    return Finding(check, Verdict.WRONG, found, fix)


def unknown(check: str, why: str, fix: str) -> Finding:
    """Nobody could look."""
    return Finding(check, Verdict.WARN, f"not checked: {why}", fix, is_known=False)
