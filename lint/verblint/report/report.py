"""A report: everything one run found, suppressed and could not check."""

from collections.abc import Iterable, Mapping

from verblint.report.finding import Finding, Severity
from verblint.startup.value import field, value

CLEAN = 0
FINDINGS = 1
COULD_NOT_CHECK = 2


@value
class Suppressed:
    """A finding suppressed in the model, beside the element, or by the baseline."""

    finding: Finding
    reason: str
    is_in_model: bool


@value
class Problem:
    """The reason why something could not be checked, in one sentence."""

    subject: str
    message: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}" if self.subject else self.message


@value(kw_only=True)
class Report:
    """The result of linting files; `files` are those whose bytes were checked.

    `sources` has the bytes of the files with findings, so that a report can quote them.
    """

    files: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    problems: tuple[Problem, ...] = ()
    sources: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, reports: Iterable["Report"]) -> "Report":
        """Merge reports in order. A problem of several files, such as a faulty file beside them, is listed once."""
        reports = list(reports)
        return cls(
            files=tuple(file for report in reports for file in report.files),
            findings=tuple(finding for report in reports for finding in report.findings),
            suppressed=tuple(suppressed for report in reports for suppressed in report.suppressed),
            problems=tuple(dict.fromkeys(problem for report in reports for problem in report.problems)),
            sources={file: source for report in reports for file, source in report.sources.items()},
        )

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of severity error."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings of severity warning."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)

    @property
    def is_clean(self) -> bool:
        """Whether everything was checked and nothing was found."""
        return not self.findings and not self.problems

    def exit_code(self, max_warnings: int = 0) -> int:
        """Return 0 if clean (up to `max_warnings` warnings), 1 for findings, 2 if something could not be checked."""
        if self.problems or not self.files:
            return COULD_NOT_CHECK
        return FINDINGS if self.errors or len(self.warnings) > max_warnings else CLEAN
