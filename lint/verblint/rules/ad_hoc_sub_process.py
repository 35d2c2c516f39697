"""A process has no ad-hoc subprocess."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB106", "ad-hoc-sub-process", Severity.ERROR, on=("adHocSubProcess", "adHoc"))
def check(context: Context) -> Iterator[Finding]:
    """A process has no ad-hoc subprocess.

    An expression or an agent's model chooses at run time which of its activities run. The diagram then does not show
    what happens.

    Wrong:  <adHocSubProcess id="choose"> with <zeebe:adHoc activeElementsCollection="=tools" />
    Right:  <subProcess id="choose"> with a gateway on flags
    """
    for element in (*context.every("adHocSubProcess"), *context.every("adHoc", namespace=ZEEBE)):
        message = f"the {describe(element)} chooses its activities at run time"
        hint = "Write a subProcess, and let gateways choose by flags"
        yield context.at(element, message, hint=hint, detail=element.local)
