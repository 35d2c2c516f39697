"""A model moves no data between data objects and activities."""

from collections.abc import Iterator

from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB113", "data-assignment", Severity.ERROR, on=("assignment", "transformation"))
def check(context: Context) -> Iterator[Finding]:
    """A model moves no data between data objects and activities.

    The engine ignores data associations. One that assigns or transforms claims that the diagram computes, and another
    tool may act on it.

    Wrong:  <dataInputAssociation> with <assignment><from>order.total</from><to>total</to></assignment>
    Right:  a sub-verb that reads the payload
    """
    for element in context.every("assignment", "transformation"):
        message = f"the {describe(element)} claims to move data, which no engine does"
        hint = "Remove it: the payload goes to every sub-verb as a whole"
        yield context.at(element, message, hint=hint, detail=element.local)
