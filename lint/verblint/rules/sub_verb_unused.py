"""Every sub-verb of the allow-list is called."""

from collections.abc import Iterator

from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB404", "sub-verb-unused", Severity.WARNING, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """Every sub-verb of the allow-list is called.

    A verb that the process never calls is a permission without a use. Perhaps the task was deleted, perhaps it was
    forgotten.

    Wrong:  sub_verbs: [kyc.close-case], and no task of that type
    Right:  a task for it, or a shorter list
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        called = {node.binding.job_type for _, node in process.walk()}
        for name in verb.sub_verbs if verb is not None else ():
            if name not in called:
                message = f"{name} is in the allow-list, and no task calls it"
                yield context.at(
                    process.element, message, hint=f"Draw a task for {name}, or take it off sub_verbs", detail=name
                )
