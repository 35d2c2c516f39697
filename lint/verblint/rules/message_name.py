"""The name of a message is a literal."""

from collections.abc import Iterator

from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB505", "message-name", Severity.ERROR, on=("message",))
def check(context: Context) -> Iterator[Finding]:
    """The name of a message is a literal.

    People, ingress and contracts know a message by its name. A computed name cannot be looked up, and an empty one
    matches nothing.

    Wrong:  <message id="docs" name="=orch_message" />
    Right:  <message id="docs" name="documents-received" />
    """
    for element in context.every("message"):
        name = element.attribute("name")
        if name is None or not name.value.strip():
            message = f"the {describe(element)} has no name"
            yield context.at(element, message, hint='Write name="..." as the contract declares it')
        elif name.value.startswith("="):
            message = f"the name of the {describe(element)} is computed: {name.value[:40]}"
            yield context.at(name.place, message, hint="Write the name itself")
