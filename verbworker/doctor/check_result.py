"""Findings: what one look came to, in three words that a program can tell apart."""

from dataclasses import dataclass
from enum import StrEnum


class CheckVerdict(StrEnum):
    """How a thing is: well, worth a look, or in the way of work."""

    OK = "ok"
    WARN = "warn"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the doctor: what was looked at, how it is, what was found, and what to do unless it is well.

    What is not known cannot carry what stands on it: those checks are not made.
    """

    check: str
    verdict: CheckVerdict
    found: str
    fix: str = ""
    is_known: bool = True


def ok(check: str, found: str) -> CheckResult:
    """All is well."""
    return CheckResult(check, CheckVerdict.OK, found)


def warn(check: str, found: str, fix: str) -> CheckResult:
    """It works, and somebody should look."""
    return CheckResult(check, CheckVerdict.WARN, found, fix)


def wrong(check: str, found: str, fix: str) -> CheckResult:
    """It does not work until somebody changes something."""
    return CheckResult(check, CheckVerdict.WRONG, found, fix)


def unknown(check: str, why: str, fix: str) -> CheckResult:
    """Nobody could look."""
    return CheckResult(check, CheckVerdict.WARN, f"not checked: {why}", fix, is_known=False)
