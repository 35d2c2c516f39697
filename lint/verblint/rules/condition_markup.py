"""A condition is text and nothing else."""

from collections.abc import Iterator

from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB224", "condition-markup", Severity.ERROR, on=("conditionExpression",))
def check(context: Context) -> Iterator[Finding]:
    """A condition is text and nothing else.

    The engine joins the text of elements inside a condition to the condition itself, and ignores the `language`
    attribute. Both mislead a reader about what is evaluated.

    Wrong:  <conditionExpression language="javascript">=orch_x = "a"</conditionExpression>
    Right:  <conditionExpression>=orch_x = "a"</conditionExpression>
    """
    for element in context.every("conditionExpression"):
        for child in element.children:
            message = f"the element {child.local} stands inside a condition, and its text would be evaluated"
            yield context.at(
                child, message, hint="Remove it; the flow itself may have documentation", detail=child.local
            )
        language = element.attribute("language")
        if language is not None:
            message = "the engine ignores the language of a condition and always evaluates FEEL"
            yield context.at(language.whole, message, hint="Remove the attribute", detail="language")
