"""A message that a process waits for has a correlation key."""

from collections.abc import Iterator

from verblint.flow.message_waits import waits
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB501", "correlation-key-missing", Severity.ERROR, on=("message",))
def check(context: Context) -> Iterator[Finding]:
    """A message that a process waits for has a correlation key.

    The key identifies the one instance that waits. Without it the engine refuses the model.

    Wrong:  <message id="docs" name="documents-received" />
    Right:  <message id="docs" ...> with <zeebe:subscription correlationKey="=corr_documents" />
    """
    for wait in waits(context):
        if wait.needs_key and wait.message is not None and wait.message.correlation_key is None:
            message = f"the message has no correlation key, and {wait.node.id} waits for it"
            hint = 'Add <zeebe:subscription correlationKey="=corr_<name>" /> to the extensionElements of the message'
            yield context.at(wait.message.element, message, hint=hint, detail=wait.node.id)
