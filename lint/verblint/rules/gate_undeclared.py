"""A user task is a gate of the contract."""

from collections.abc import Iterator

from verblint.bpmn.model import NodeKind
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB511", "gate-undeclared", Severity.WARNING, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A user task is a gate of the contract.

    The contract defines which decisions a gate takes and who is asked. A user task that it does not know accepts any
    word as a decision.

    Wrong:  <userTask id="Check" />, and gates: {review: {task: Review, ...}}
    Right:  <userTask id="Review" />
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        for _, node in process.walk() if verb is not None else ():
            tasks = [gate.task for gate in verb.gates.values()] if verb is not None else []
            if node.kind is NodeKind.USER_TASK and node.id not in tasks:
                message = f"no gate of the contract stands at {node.id}"
                hint = f"Declare it: gates: {{<name>: {{task: {node.id}, decisions: [...]}}}}"
                yield context.at(node.element, message, hint=hint)
