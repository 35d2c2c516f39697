"""Findings and the report of a run: what was found, what was suppressed, what could not be checked, and its text."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from verblint.startup import TYPE_CHECKING
from verblint.startup.value import field, value

if TYPE_CHECKING:
    from verblint.rule import Rule

# Exit codes, as of other linters: CI tells "the model is wrong" from "nothing was checked".
CLEAN = 0
FINDINGS = 1
COULD_NOT_CHECK = 2
FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit")


class Severity(StrEnum):
    """How severe a finding is: an error if no intention makes the model work, a warning if one might."""

    ERROR = "error"
    WARNING = "warning"


@value
class Edit:
    """Replaces the bytes from `start` to `end`."""

    start: int
    end: int
    replacement: bytes


@value
class Fix:
    """A safe rewrite: edits that do not overlap, and a sentence that describes them."""

    description: str
    edits: tuple[Edit, ...]


@value(kw_only=True)
class Finding:
    """What is wrong, where, and what to write instead.

    Lines and columns count from 1; the end column is the one after the last character. `detail` distinguishes findings
    of one rule on one element and must not depend on the layout of the file. `offset` is the first byte of the place.
    """

    code: str
    slug: str
    severity: Severity
    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    offset: int = 0
    hint: str = ""
    element_id: str = ""
    element_name: str = ""
    element_type: str = ""
    process_id: str = ""
    detail: str = ""
    fix: Fix | None = None

    @property
    def fingerprint(self) -> str:
        """A hash of code, process, element and detail, which does not change with the layout."""
        # Importing OpenSSL takes longer than checking a model, and a clean model needs no fingerprints.
        from hashlib import sha256

        parts = (self.code, self.process_id, self.element_id, self.detail)
        return sha256("\0".join(parts).encode()).hexdigest()[:32]


def is_suppressible(code: str) -> bool:
    """Return whether a code can be suppressed: not file safety, nor suppressions, which must not excuse each other."""
    return not code.startswith(("HB0", "HB9"))


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

    def exit_code(self, max_warnings: int = 0) -> int:
        """Return 0 if clean (up to `max_warnings` warnings), 1 for findings, 2 if something could not be checked."""
        if self.problems or not self.files:
            return COULD_NOT_CHECK
        return FINDINGS if self.errors or len(self.warnings) > max_warnings else CLEAN


def render(report: Report, form: str, *, colour: bool = False, rules: "Sequence[Rule]" = ()) -> str:
    """Render the report in one of FORMATS; only the full format uses colour, for terminals.

    `rules` belong to another tool whose findings are in the report; some formats list them.
    """
    module = __import__(f"verblint.formats.{form}", fromlist=("render",))
    options: dict[str, object] = {}
    if form == "full":
        options["colour"] = colour
    elif form == "sarif":
        options["more"] = tuple(rules)
    text: str = module.render(report, **options)
    return text


def printable(text: str) -> str:
    """Escape text from a model, so that it cannot move the cursor, end a line or hide what follows."""
    return text if text.isprintable() else "".join(_visible(sign) for sign in text)


def statistics(report: Report) -> str:
    """List how many findings each rule has, most frequent first."""
    counts = Counter((finding.code, finding.severity, finding.slug) for finding in report.findings)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return "".join(f"{count:6}  {code}  {severity:7}  {slug}\n" for (code, severity, slug), count in rows)


def subject(finding: Finding) -> str:
    """Describe the element of a finding: `userTask Review "Decide" of kyc-open-case`."""
    words = [finding.element_type, finding.element_id]
    if finding.element_name:
        words.append(f'"{finding.element_name}"')
    if finding.process_id and finding.process_id != finding.element_id:
        words.append(f"of {finding.process_id}")
    return " ".join(word for word in words if word)


def version() -> str:
    """Return the version of this package."""
    from importlib.metadata import version as installed

    return installed("verbworker-lint")


def _visible(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode()
