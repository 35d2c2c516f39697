"""A model is well-formed XML."""

from collections.abc import Iterator

from verblint.bpmn.reader import NOT_WELL_FORMED
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_by_reader
from verblint.rule import Context, rule


@rule(NOT_WELL_FORMED, "not-well-formed", Severity.ERROR, on=(NOT_WELL_FORMED,))
def check(context: Context) -> Iterator[Finding]:
    """A model is well-formed XML.

    What no parser can read, no engine can run. The position is where the reader stopped; the cause is often a line or
    two above it.

    Wrong:  <serviceTask id="ask"> without its end tag
    Right:  <serviceTask id="ask"> ... </serviceTask>
    """
    return refused_by_reader(context)
