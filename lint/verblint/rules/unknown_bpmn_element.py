"""Every element of a process is one that BPMN defines and engines can execute."""

from collections.abc import Iterator

from verblint.bpmn.bpmn_schema import names
from verblint.bpmn.element import BPMN
from verblint.names import suggestion
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB005", "unknown-bpmn-element", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """Every element of a process is one that BPMN defines and engines can execute.

    Engines check a model against the schema of BPMN and refuse what is not in it. Choreographies and conversations are
    in the schema, but nothing executes them.

    Wrong:  <servicetask id="ask" />
    Right:  <serviceTask id="ask" />
    """
    for local in [local for namespace, local in context.elements if namespace == BPMN and local not in names()]:
        for element in context.every(local):
            message = f"BPMN has no element {local} that an engine executes"
            yield context.at(element, message, hint=suggestion(local, names()), detail=local)
