"""A message that a process waits for is declared in the contract."""

from collections.abc import Iterator

from verblint.flow.message_waits import waits
from verblint.names import nearest
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB506", "message-undeclared", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A message that a process waits for is declared in the contract.

    Ingress takes from the contract which messages exist and which key each of them has. A message that is not declared
    is a dead letter.

    Wrong:  <message id="docs" name="docs-recieved" />
    Right:  <message id="docs" name="documents-received" />, and messages: {documents-received: corr_documents}
    """
    for wait in waits(context):
        if wait.verb is None or wait.message is None or wait.message.name in ("", *wait.verb.messages):
            continue
        near = nearest(wait.message.name, list(wait.verb.messages))
        hint = f"Write {near}" if near else "Declare it under messages in the verb's contract, with its correlation key"
        message = f"the verb {wait.verb.name} declares no message {wait.message.name}"
        yield context.at(wait.message.element, message, hint=hint, detail=wait.node.id)
