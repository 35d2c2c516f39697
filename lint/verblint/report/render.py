"""Render a report in one of the formats, and escape text for all of them."""

from collections import Counter
from collections.abc import Sequence

from verblint.report.finding import Finding
from verblint.report.report import Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from verblint.rule import Rule

FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit")


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
