"""A step is undone by a compensation handler or by the task that undoes everything, not by both."""

from collections.abc import Iterator

from verblint.names import COMPENSATE
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB411", "undone-twice", Severity.WARNING, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A step is undone by a compensation handler or by the task that undoes everything, not by both.

    A task of type `verbworker.compensate` undoes every completed step of the manifest. It does not know which steps a
    handler has already undone in the engine, so a case that passes both undoes such a step twice.

    Wrong:  a compensation boundary event on kyc.request-documents, and a serviceTask of type verbworker.compensate
    Right:  the serviceTask alone: it undoes in reverse order, one step after the other
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        if verb is None or all(node.binding.job_type != COMPENSATE for _, node in process.walk()):
            continue
        for scope in process.scope.scopes():
            for handler, undone in scope.handlers.items():
                if undone.binding.job_type in verb.compensation:
                    message = f"{undone.id} is undone by {handler} and by {COMPENSATE}"
                    hint = "Remove the handler and its boundary event"
                    yield context.at(scope.by_id[handler].element, message, hint=hint)
