"""Data objects, data stores, properties and input specifications have no effect."""

from collections.abc import Iterator

from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule(
    "HB114",
    "data-element-ignored",
    Severity.WARNING,
    on=("ioSpecification", "property", "dataObject", "dataStoreReference"),
)
def check(context: Context) -> Iterator[Finding]:
    """Data objects, data stores, properties and input specifications have no effect.

    They may explain a diagram to a reader. The engine ignores them, so nothing must depend on them.

    Wrong:  <property id="p" name="limit" /> in the hope of a variable
    Right:  a flag in the verb's contract, or a textAnnotation for the reader
    """
    for element in context.every("ioSpecification", "property", "dataObject", "dataStoreReference"):
        message = f"the {describe(element)} has no effect on any engine"
        yield context.at(
            element, message, hint="Use a textAnnotation for readers, a flag for gateways", detail=element.local
        )
