"""The engine publishes no messages by itself."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB117", "publish-message", Severity.ERROR, on=("publishMessage",))
def check(context: Context) -> Iterator[Finding]:
    """The engine publishes no messages by itself.

    A message that leaves a process is an effect on the world. A sub-verb sends it, with a frame and an idempotency key,
    so that a repeated job does not send it twice.

    Wrong:  <zeebe:publishMessage correlationKey="=corr_case" />
    Right:  <zeebe:taskDefinition type="kyc.notify-reviewer" /> on the sending event or task
    """
    for element in context.every("publishMessage", namespace=ZEEBE):
        message = f"the {describe(element)} sends without a verb"
        yield context.at(element, message, hint="Write a taskDefinition that names a sub-verb", detail=element.local)
