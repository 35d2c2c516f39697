"""A process calls no other process."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB105", "call-activity", Severity.ERROR, on=("callActivity", "calledElement"))
def check(context: Context) -> Iterator[Finding]:
    """A process calls no other process.

    A workflow verb consists of direct verbs only. A nested process hides who owns the payload, what is retried and what
    a cancel means. Long work that follows is handed over by a message, and has its own entry.

    Wrong:  <callActivity id="screen"> with <zeebe:calledElement processId="kyc-screening" />
    Right:  <sendTask id="ask-screening">, and a receiveTask for the answer
    """
    for element in (*context.every("callActivity"), *context.every("calledElement", namespace=ZEEBE)):
        message = f"the {describe(element)} nests another process"
        hint = "Call direct verbs, or hand over by a message and wait for the answer"
        yield context.at(element, message, hint=hint, detail=element.local)
