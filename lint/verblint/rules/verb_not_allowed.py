"""A process calls only sub-verbs of its verb's allow-list."""

from collections.abc import Iterator

from verblint.flow.job_nodes import jobs
from verblint.names import FOREIGN_JOBS, OWN_JOBS, nearest
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB401", "verb-not-allowed", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A process calls only sub-verbs of its verb's allow-list.

    The contract defines which verbs a process may call, and the worker refuses every other. A model that names another
    verb fails at run time, with a real case in it.

    Wrong:  <zeebe:taskDefinition type="kyc.delete-everything" />, which sub_verbs does not list
    Right:  <zeebe:taskDefinition type="kyc.request-documents" />, which sub_verbs lists
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        if verb is None:
            continue
        for scope, node in jobs(process):
            name = node.binding.job_type
            is_own = name.startswith((OWN_JOBS, FOREIGN_JOBS))
            if not name or is_own or name in verb.sub_verbs or node.is_for_compensation or node.id in scope.handlers:
                continue
            near = nearest(name, verb.sub_verbs)
            hint = f"Write {near}" if near else f"List {name} under sub_verbs of {verb.name}, or name another verb"
            message = f"{name} is not in the allow-list of {verb.name}"
            yield context.at(node.binding.type or node.element, message, hint=hint)
