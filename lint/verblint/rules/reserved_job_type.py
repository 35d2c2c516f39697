"""Job types that start with `verbworker.` are reserved for the runtime."""

from collections.abc import Iterator

from verblint.names import COMPENSATE, OWN_JOBS
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB410", "reserved-job-type", Severity.ERROR, words=(OWN_JOBS,))
def check(context: Context) -> Iterator[Finding]:
    """Job types that start with `verbworker.` are reserved for the runtime.

    The only one that a model may name is `verbworker.compensate`, which undoes what was done so far. All others are
    woven in when the model is deployed.

    Wrong:  <zeebe:taskDefinition type="verbworker.park" />
    Right:  <zeebe:taskDefinition type="verbworker.compensate" />
    """
    for process in context.model.processes:
        for _, node in process.walk():
            name = node.binding.job_type
            if name.startswith(OWN_JOBS) and name != COMPENSATE:
                message = f"the job type {name} is reserved for the runtime"
                yield context.at(node.binding.type or node.element, message, hint=f"Name a sub-verb, or {COMPENSATE}")
