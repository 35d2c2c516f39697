"""Rendering: a report as text in one of the formats, and what all text formats must watch out for."""

from collections import Counter
from collections.abc import Sequence

from verblint.report.finding import Finding
from verblint.report.report import Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from verblint.rulebook.rule import Rule

FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit")


def render(report: Report, form: str, *, colour: bool = False, rules: "Sequence[Rule]" = ()) -> str:
    """The report in one of FORMATS; colour is for terminals and for the full format alone.

    `rules` are those of another tool whose findings stand among ours: some formats list the rules beside them.
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
    """A text from a model, made harmless: nothing in it can move a cursor, end a line or hide what follows."""
    return text if text.isprintable() else "".join(_visible(sign) for sign in text)


def statistics(report: Report) -> str:
    """How often each rule found something, most frequent first."""
    counts = Counter((finding.code, finding.severity, finding.slug) for finding in report.findings)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return "".join(f"{count:6}  {code}  {severity:7}  {slug}\n" for (code, severity, slug), count in rows)


def subject(finding: Finding) -> str:
    """The element a finding is about, in a few words: `userTask Review "Decide" of kyc-open-case`."""
    words = [finding.element_type, finding.element_id]
    if finding.element_name:
        words.append(f'"{finding.element_name}"')
    if finding.process_id and finding.process_id != finding.element_id:
        words.append(f"of {finding.process_id}")
    return " ".join(word for word in words if word)


def version() -> str:
    """The version of this package."""
    from importlib.metadata import version as installed

    return installed("verbworker-lint")


def _visible(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode()
