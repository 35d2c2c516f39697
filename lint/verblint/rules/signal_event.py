"""A process neither sends nor receives signals."""

from collections.abc import Iterator

from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB116", "signal-event", Severity.ERROR, on=("signalEventDefinition", "signal"))
def check(context: Context) -> Iterator[Finding]:
    """A process neither sends nor receives signals.

    A signal is a broadcast: every listening instance of every tenant receives it, and the intended receiver is unknown.
    A message has a correlation key and reaches the one instance it is meant for.

    Wrong:  <signalEventDefinition signalRef="documents" />
    Right:  <messageEventDefinition messageRef="documents" />, with a correlation key
    """
    for element in context.every("signalEventDefinition", "signal"):
        message = f"the {describe(element)} reaches every instance of every tenant"
        yield context.at(element, message, hint="Write a message with a correlation key", detail=element.local)
