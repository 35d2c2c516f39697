"""An executable process is the process of a workflow verb."""

from collections.abc import Iterator

from verblint.names import nearest
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB406", "process-unknown", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """An executable process is the process of a workflow verb.

    Its id is the process key of the contract. A process that no contract names cannot be started, and none of its
    verbs, flags and messages can be checked.

    Wrong:  <process id="kyc-open-cases" isExecutable="true">
    Right:  <process id="kyc-open-case" isExecutable="true">, and process: kyc-open-case in the contract
    """
    if not context.contracts.workflows:
        return
    keys = [verb.process for verb in context.contracts.workflows.values()]
    for process in context.model.executable:
        if process.id not in keys:
            message = f"no workflow verb has the process {process.id or 'without an id'}"
            near = nearest(process.id, keys)
            hint = f"Write {near}" if near else "Name it as process in the contract of a workflow verb"
            yield context.at(process.element, message, hint=hint)
