"""A model has no listeners except the runtime's own."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import OWN_JOBS, describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB108", "listener", Severity.ERROR, on=("executionListener", "taskListener"))
def check(context: Context) -> Iterator[Finding]:
    """A model has no listeners except the runtime's own.

    A listener is a job with side effects that no reader of the diagram sees, and it can set variables. The runtime
    weaves its own when it deploys; their types start with `verbworker.`.

    Wrong:  <zeebe:executionListener eventType="start" type="audit-log" />
    Right:  a serviceTask that is drawn, or nothing
    """
    for element in context.every("executionListener", "taskListener", namespace=ZEEBE):
        if not (element.get("type") or "").startswith(OWN_JOBS):
            message = f"the {describe(element)} runs a job that the diagram does not show"
            yield context.at(element, message, hint="Draw a serviceTask for it", detail=element.get("type") or "")
