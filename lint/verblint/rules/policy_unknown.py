"""A policy that a task names is in the catalogue, and is the one in the contract."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import extensions
from verblint.bpmn.element import AMEIDE
from verblint.contracts.contract import Contracts
from verblint.contracts.profiles import profile_of
from verblint.flow.job_nodes import jobs
from verblint.names import suggestion
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

_NONE = Contracts()


@rule("AM715", "policy-unknown", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """A policy that a task names is in the catalogue, and is the one in the contract.

    The policy bounds the step: how often, how long. A name without a policy bounds nothing, and two different policies
    for one step contradict each other.

    Wrong:  policyRef="pateint"
    Right:  policyRef="patient"
    """
    policies = context.contracts.policies
    is_given = context.contracts != _NONE or profile_of(context).needs_catalogue
    for process in context.model.processes if is_given else ():
        verb = context.contracts.of_process(process.id)
        for _, node in jobs(process):
            for element in extensions(node.element, "taskDefinition"):
                reference = element.attribute("policyRef")
                name = reference.value if reference is not None else ""
                wanted = verb.policy_of(node.binding.job_type) if verb is not None else ""
                if reference is not None and name and name not in policies:
                    message = f"no policy is called {name}"
                    yield context.at(
                        reference.place, message, hint=suggestion(name, policies).replace("Remove it", "Declare it")
                    )
                elif reference is not None and name and wanted and name != wanted:
                    message = f"policyRef is {name}, and the contract says {wanted}"
                    yield context.at(reference.place, message, hint=f"Write {wanted}, or change the contract")
