"""A gate of the contract belongs to a user task of the process."""

from collections.abc import Iterator

from verblint.bpmn.model import NodeKind
from verblint.names import nearest
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB512", "gate-without-task", Severity.WARNING, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A gate of the contract belongs to a user task of the process.

    People would wait for a question that is never asked, and a decision for that gate has no target.

    Wrong:  gates: {review: {task: Reveiw, ...}}
    Right:  gates: {review: {task: Review, ...}}, and <userTask id="Review" />
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        tasks = [node.id for _, node in process.walk() if node.kind is NodeKind.USER_TASK]
        for gate in verb.gates.values() if verb is not None else ():
            if gate.task not in tasks:
                message = f"the gate {gate.name} stands at {gate.task}, which is no user task of this process"
                near = nearest(gate.task, tasks)
                hint = f"Call the user task {gate.task} instead of {near}" if near else f"Draw a userTask {gate.task}"
                yield context.at(process.element, message, hint=hint, detail=gate.name)
