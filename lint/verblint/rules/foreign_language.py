"""A model uses no other expression language and imports nothing."""

from collections.abc import Iterator

from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

FEEL = "https://www.omg.org/spec/DMN/20191111/FEEL/"
_ELEMENTS = (
    *("import", "resourceRole", "performer", "humanPerformer", "potentialOwner", "resourceAssignmentExpression"),
    *("correlationProperty", "correlationSubscription", "ioBinding", "rendering"),
)


@rule("HB125", "foreign-language", Severity.ERROR, on=("expressionLanguage", *_ELEMENTS))
def check(context: Context) -> Iterator[Finding]:
    """A model uses no other expression language and imports nothing.

    `expressionLanguage` declares that expressions are not FEEL, which the engine ignores. Imports, resource assignments
    and correlation properties are BPMN of other engines.

    Wrong:  <definitions expressionLanguage="http://www.w3.org/1999/XPath" ...>
    Right:  <definitions ...> without the attribute
    """
    language = context.root.attribute("expressionLanguage")
    if language is not None and language.value != FEEL:
        message = "the engine ignores the expression language of a model and always evaluates FEEL"
        yield context.at(language.whole, message, hint="Remove the attribute", detail="expressionLanguage")
    for element in context.every(*_ELEMENTS):
        message = f"the {describe(element)} belongs to other engines"
        yield context.at(element, message, hint="Remove it", detail=element.local)
