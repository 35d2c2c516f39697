"""The correlation key of a message is the one that the contract declares for it."""

from collections.abc import Iterator

from verblint.flow.message_waits import correlation_name, waits
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB503", "correlation-key-undeclared", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """The correlation key of a message is the one that the contract declares for it.

    The contract defines which key the runtime writes for which message. A message that waits under another key, or
    under one that is never written, is never correlated.

    Wrong:  =corr_case, where the contract has messages: {documents-received: corr_documents}
    Right:  =corr_documents
    """
    for wait in waits(context):
        key = wait.message.correlation_key if wait.message is not None else None
        name = correlation_name(key) if key is not None else None
        if wait.verb is None or wait.message is None or key is None or name is None:
            continue
        wanted = wait.verb.messages.get(wait.message.name)
        if name not in wait.verb.correlation:
            message = f"the verb {wait.verb.name} declares no correlation key {name}"
            yield context.at(
                key, message, hint=f"Write ={wanted}" if wanted else "Declare it under correlation.keys", detail=name
            )
        elif wanted is not None and name != wanted:
            message = f"the message {wait.message.name} is correlated by {wanted}, not by {name}"
            yield context.at(key, message, hint=f"Write ={wanted}", detail=name)
