"""Steps that run at the same time write different fields of the payload."""

from collections.abc import Iterator

from verblint.bpmn.model import FlowNode, Process
from verblint.flow.concurrency import TooEntangled, forks
from verblint.flow.writers import conflicts
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB306", "parallel-writers", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """Steps that run at the same time write different fields of the payload.

    Two sub-verbs on parallel branches start from the same payload. Where both change one field, one change would be
    lost, so the runtime refuses the second. Each verb declares what it writes; here those fields must not overlap.

    Wrong:  two branches of a parallelGateway, with kyc.screen-entity on both
    Right:  one after the other, or verbs whose `writes` differ
    """
    if not context.contracts.workflows and not context.contracts.directs:
        return
    for process in context.model.processes:
        try:
            yield from _of_process(context, process)
        except TooEntangled:
            message = "the process forks too often to tell which of its steps run at the same time"
            yield context.at(process.element, message, hint="Split it into verbs that hand over by message")


def _of_process(context: Context, process: Process) -> Iterator[Finding]:
    reported: set[str] = set()
    for fork in forks(process):
        for first, second, fields in conflicts(fork, context.contracts):
            if second.id in reported:
                continue
            reported.add(second.id)
            message = f"{_label(first)} and {_label(second)} can run at the same time, and both may write {fields}"
            hint = "Run one after the other, or declare `writes` that differ"
            yield context.at(second.element, message, hint=hint, detail=first.id)


def _label(node: FlowNode) -> str:
    return f"{node.id} ({node.binding.job_type or 'no verb'})"
