"""Compare a model with its verb's contract where the linter does not."""

import re
from collections.abc import Iterator

from verblint.bpmn.ameide_schema import extensions
from verblint.bpmn.model import NodeKind, Process
from verblint.flow.job_nodes import jobs
from verblint.report import Finding
from verbworker.contract.workflow import KEY_PLACES, WorkflowVerb
from verbworker.profile.verify.model_tree import ModelTree
from verbworker.profile.verify.policy_files import PolicyFiles
from verbworker.profile.verify.rules import BUSINESS_KEY_DIFFERS, CORRELATION_DIFFERS, GATE_NAME_DIFFERS, RETRIES_DIFFER


def disagreements(
    drawn: ModelTree, process: Process, workflow: WorkflowVerb, policies: PolicyFiles
) -> Iterator[Finding]:
    """Yield every place where a model's profile differs from the contract."""
    yield from _business_key(drawn, process, workflow)
    yield from _keys(drawn, process, workflow)
    yield from _gates(drawn, process, workflow)
    yield from _retries(drawn, process, workflow, policies)


def _business_key(drawn: ModelTree, process: Process, workflow: WorkflowVerb) -> Iterator[Finding]:
    for definition in extensions(process.element, "workflowDefinition"):
        template = definition.get("workflowIdTemplate") or ""
        spot = drawn.attribute_spot(definition, "workflowIdTemplate")
        if workflow.business_key is None:
            message = f"workflowIdTemplate is {template}, and the contract of {workflow.name} has no business key"
            hint = f'Add correlation: {{business_key: "{template}"}} to the contract'
        elif template in (workflow.business_key, _of_state(workflow.business_key, workflow)):
            continue
        else:
            message = f"workflowIdTemplate is {template}, and the business key of {workflow.name} is"
            message += f" {workflow.business_key}"
            hint = "Write the same template in both"
        yield spot.finding(BUSINESS_KEY_DIFFERS, message, hint=hint, process=process.id)


def _of_state(template: str, workflow: WorkflowVerb) -> str:
    """Return a template with every argument replaced by the data field it is stored in."""
    fields = {source.replace("-", "_"): target for target, source in workflow.initial.items()}

    def substitute(place: re.Match[str]) -> str:
        return f"${{state.{fields[place[1]]}}}" if place[1] in fields else place[0]

    return KEY_PLACES.sub(substitute, template)


def _keys(drawn: ModelTree, process: Process, workflow: WorkflowVerb) -> Iterator[Finding]:
    for message in drawn.definitions.messages.values():
        # A message or a key missing in the contract is a finding of the linter.
        key = workflow.messages.get(message.name)
        declared = None if key is None else workflow.correlation.get(key)
        for subscription in extensions(message.element, "subscription") if declared is not None else ():
            template = subscription.get("correlationKeyTemplate") or ""
            if declared is None or template in (declared, _of_state(declared, workflow)):
                continue
            spot = drawn.attribute_spot(subscription, "correlationKeyTemplate")
            words = f"correlationKeyTemplate of {message.name} is {template}, and {key} of the contract is {declared}"
            hint = "Write the same template in both"
            yield spot.finding(CORRELATION_DIFFERS, words, hint=hint, process=process.id)


def _gates(drawn: ModelTree, process: Process, workflow: WorkflowVerb) -> Iterator[Finding]:
    names = {gate.task: gate.name for gate in workflow.gates.values()}
    for _, node in process.walk(NodeKind.USER_TASK):
        for update in extensions(node.element, "updateDefinition"):
            name, wanted = update.get("name") or "", names.get(node.id, "")
            if not name or not wanted or name in (wanted, f"Update_{node.id}"):
                continue
            words = f"updateDefinition calls the gate {name}, and the contract calls it {wanted}"
            hint = f"Write {wanted}, or leave the name out"
            spot = drawn.attribute_spot(update, "name")
            yield spot.finding(GATE_NAME_DIFFERS, words, hint=hint, process=process.id)


def _retries(drawn: ModelTree, process: Process, workflow: WorkflowVerb, policies: PolicyFiles) -> Iterator[Finding]:
    for _, node in jobs(process):
        retries = node.binding.retries
        if retries is None or workflow.policy_of(node.binding.job_type):
            continue
        for definition in extensions(node.element, "taskDefinition"):
            policy = policies.policies.get(definition.get("policyRef") or "")
            if policy is None or not retries.text.isdecimal():
                continue
            wanted = policy.retry.maximum_attempts
            if int(retries.text) != wanted:
                words = f"retries is {retries.text}, but the policy {policy.name} has {wanted}"
                hint = f'Write retries="{wanted}", or remove it'
                yield drawn.spot(retries.place).finding(RETRIES_DIFFER, words, hint=hint, process=process.id)
