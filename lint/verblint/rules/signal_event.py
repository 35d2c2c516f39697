"""A process neither sends nor hears signals."""

from collections.abc import Iterator

from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rulebook.rule import Context, rule


@rule("HB116", "signal-event", Severity.ERROR, on=("signalEventDefinition", "signal"))
def check(context: Context) -> Iterator[Finding]:
    """A process neither sends nor hears signals.

    A signal is a broadcast: every instance of every tenant that listens hears it, and nobody can tell who should. A
    message has a correlation key and reaches the one instance it is meant for.

    Wrong:  <signalEventDefinition signalRef="documents" />
    Right:  <messageEventDefinition messageRef="documents" />, with a correlation key
    """
    for element in context.every("signalEventDefinition", "signal"):
        message = f"the {describe(element)} reaches every instance of every tenant"
        yield context.at(element, message, hint="Write a message with a correlation key", detail=element.local)
