"""A step that the contract can undo is undone in the model."""

from collections.abc import Iterator

from verblint.flow.job_nodes import jobs
from verblint.names import COMPENSATE
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB405", "compensation-missing", Severity.WARNING, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A step that the contract can undo is undone in the model.

    The manifest names a verb that undoes the step. Without a compensation boundary event on the task, and without a
    task of type `verbworker.compensate`, it is never called.

    Wrong:  compensation: {kyc.request-documents: kyc.withdraw-document-request}, and nothing in the model
    Right:  a serviceTask of type verbworker.compensate on the path where the case is given up
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        if verb is None or any(node.binding.job_type == COMPENSATE for _, node in process.walk()):
            continue
        for scope, node in jobs(process):
            undo = verb.compensation.get(node.binding.job_type)
            is_undone = any(boundary.is_compensation_boundary for boundary in scope.boundaries(node))
            if undo is not None and not is_undone and not node.is_for_compensation:
                message = f"{undo} could undo {node.binding.job_type}, and nothing calls it"
                hint = f"Draw a serviceTask of type {COMPENSATE}, or a compensation boundary event here"
                yield context.at(node.element, message, hint=hint)
