"""Check results, with three verdicts for programs to distinguish."""

from dataclasses import dataclass
from enum import StrEnum


class CheckVerdict(StrEnum):
    """The verdict of a check: fine, needs attention, or prevents work."""

    OK = "ok"
    WARN = "warn"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the doctor: the check, its verdict, what was found, and the fix unless it is ok.

    If a result is not known, the checks that depend on it are skipped.
    """

    check: str
    verdict: CheckVerdict
    found: str
    fix: str = ""
    is_known: bool = True


def ok(check: str, found: str) -> CheckResult:
    """Return a result without a problem."""
    return CheckResult(check, CheckVerdict.OK, found)


def warn(check: str, found: str, fix: str) -> CheckResult:
    """Return a result that works but needs attention."""
    return CheckResult(check, CheckVerdict.WARN, found, fix)


def wrong(check: str, found: str, fix: str) -> CheckResult:
    """Return a result that prevents work until it is fixed."""
    return CheckResult(check, CheckVerdict.WRONG, found, fix)


def unknown(check: str, why: str, fix: str) -> CheckResult:
    """Return a result for a check that could not run."""
    return CheckResult(check, CheckVerdict.WARN, f"not checked: {why}", fix, is_known=False)
