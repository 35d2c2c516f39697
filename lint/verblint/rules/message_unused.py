"""A message of the contract is one that the process waits for."""

from collections.abc import Iterator

from verblint.flow.message_waits import waits
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB514", "message-unused", Severity.WARNING, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A message of the contract is one that the process waits for.

    The contract promises its callers that they may send it. If no event waits for it, it becomes a dead letter.

    Wrong:  messages: {documents-received: corr_documents}, and no event that waits for it
    Right:  a receiveTask or a message event for it, or a shorter list
    """
    awaited = {(wait.process.id, wait.message.name) for wait in waits(context) if wait.message is not None}
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        for name in verb.messages if verb is not None else ():
            if (process.id, name) not in awaited:
                message = f"the contract declares the message {name}, and nothing waits for it"
                yield context.at(process.element, message, hint="Draw the wait, or take it off messages", detail=name)
