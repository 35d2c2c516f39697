"""A compensation handler is a service task that calls the verb of the manifest."""

from collections.abc import Iterator

from verblint.flow.job_nodes import is_job
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB408", "compensation-verb", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A compensation handler is a service task that calls the verb of the manifest.

    The manifest of the contract defines which verb undoes which step. A handler that calls another verb, or none,
    undoes something else.

    Wrong:  kyc.close-case as the handler of kyc.request-documents
    Right:  kyc.withdraw-document-request, as in the manifest
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        for scope in process.scope.scopes() if verb is not None else ():
            for handler, undone in scope.handlers.items():
                node = scope.by_id[handler]
                wanted = verb.compensation.get(undone.binding.job_type) if verb is not None else None
                if wanted is None:
                    message = (
                        f"the manifest has nothing that undoes {undone.id} ({undone.binding.job_type or undone.kind})"
                    )
                    hint = "Add the pair to compensation in the contract, or remove the handler"
                    yield context.at(node.element, message, hint=hint)
                elif not is_job(node) or node.binding.job_type != wanted:
                    message = f"{undone.id} is undone by {wanted}, not by {node.binding.job_type or node.kind}"
                    yield context.at(node.element, message, hint=f"Write a serviceTask of type {wanted}")
