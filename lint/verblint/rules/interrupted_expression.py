"""No comment and no processing instruction is inside an expression."""

from collections.abc import Iterator

from verblint.bpmn.element import BPMN, ZEEBE, Place
from verblint.bpmn.places import is_evaluated
from verblint.report.finding import Finding, Severity
from verblint.rule import COMMENTS, Context, rule


@rule("HB015", "interrupted-expression", Severity.ERROR, on=(COMMENTS,))
def check(context: Context) -> Iterator[Finding]:
    """No comment and no processing instruction is inside an expression.

    The engine joins the text on both sides and evaluates all of it; many tools show only the part before the comment.
    An expression that tools read differently cannot be reviewed.

    Wrong:  <conditionExpression>=orch_x = "q"<!-- --> or domain_payload = "NEW"</conditionExpression>
    Right:  <conditionExpression>=orch_x = "q"</conditionExpression>
    """
    for element in context.within(BPMN, ZEEBE) if context.root.document.interruptions else ():
        if not is_evaluated(element):
            continue
        for offset in element.interruptions:
            message = f"a comment or an instruction stands inside the {element.local}, and the text behind it counts"
            place = Place(element, offset, offset + 2)
            yield context.at(place, message, hint="Remove it", detail=f"{element.local} {offset - element.start}")
