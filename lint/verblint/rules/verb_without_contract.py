"""A sub-verb that a process calls has its own contract."""

from collections.abc import Iterator

from verblint.flow.job_nodes import jobs
from verblint.names import FOREIGN_JOBS, OWN_JOBS
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB407", "verb-without-contract", Severity.WARNING, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A sub-verb that a process calls has its own contract.

    Without one it is unknown what it writes, so it counts as writing everything, and no worker is known to perform it.

    Wrong:  <zeebe:taskDefinition type="kyc.rate-risk" />, and no file below verbs/ declares kyc.rate-risk
    Right:  verb: kyc.rate-risk, mode: transactional, writes: [risk]
    """
    known = context.contracts.directs
    for process in context.model.processes:
        for _, node in jobs(process) if known else ():
            name = node.binding.job_type
            if name and name not in known and not name.startswith((OWN_JOBS, FOREIGN_JOBS)):
                message = f"no contract declares the verb {name}"
                hint = "Declare it below the verbs folder, with what it writes"
                yield context.at(node.binding.type or node.element, message, hint=hint)
