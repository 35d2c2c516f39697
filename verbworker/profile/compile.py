"""Compile a model, its verb's contract and its policies to one plain value with a digest.

The diagram's layout and the position of elements in the file are not included. The extension profile (`ameide:*`) is,
and so is everything the engine acts on.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from verblint.bpmn.ameide_schema import extensions
from verblint.bpmn.assembly import assemble
from verblint.bpmn.element import AMEIDE, Element
from verblint.bpmn.event_cause import (
    Compensate,
    Error,
    Escalation,
    EventDefinition,
    Link,
    MessageEvent,
    SignalEvent,
    Terminate,
    Timer,
)
from verblint.bpmn.model import Definitions, FlowNode, NodeKind, Process, Scope, SequenceFlow
from verblint.flow.job_nodes import is_job
from verblint.flow.message_waits import correlation_name
from verblint.names import OWN_JOBS
from verbworker.contract.policy import Policy
from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import Refused
from verbworker.model.element_tree import open_tree
from verbworker.payload.canonical import canonical
from verbworker.payload.signature import digest
from verbworker.profile.last_writers import find_last_writers

_CATCHING = (NodeKind.CATCH_EVENT, NodeKind.BOUNDARY_EVENT, NodeKind.START_EVENT)

Json = dict[str, Any]


@dataclass(frozen=True)
class Compiled:
    """A compiled process as plain JSON; without the profile it has no `definition_id`."""

    process_id: str
    verb: str
    definition_id: str | None
    ir: Json
    policies: Json

    @cached_property
    def ir_digest(self) -> str:
        """The digest of the compiled content, as `sha256:` and hexadecimal digits."""
        return digest(canonical({"ir": self.ir, "policies": self.policies}))


def compile_model(content: bytes, workflows: Iterable[WorkflowVerb], policies: Mapping[str, Policy]) -> Compiled:
    """Compile a model that passed the linter; raises `Refused` with one sentence if that is impossible.

    The same model, contract and policies always give the same value.
    """
    with open_tree(content) as root:
        model = assemble(root)
        process = only_process(model)
        return compile_process(model, process, owner_of(process, workflows), policies)


def only_process(model: Definitions) -> Process:
    """Return the only executable process of a file, or raise `Refused`."""
    if len(model.executable) != 1:
        names = ", ".join(process.id for process in model.executable) or "none"
        raise Refused(f"a file is deployed with one executable process, and this one has {names}")
    return model.executable[0]


def owner_of(process: Process, workflows: Iterable[WorkflowVerb]) -> WorkflowVerb:
    """Return the workflow verb that owns a process, or raise `Refused`."""
    found = next((workflow for workflow in workflows if workflow.process == process.id), None)
    if found is None:
        raise Refused(
            f"no workflow verb has the process {process.id}, so it cannot be started;"
            " name it as process in the contract of a workflow verb"
        )
    return found


def compile_process(
    model: Definitions, process: Process, workflow: WorkflowVerb, policies: Mapping[str, Policy]
) -> Compiled:
    """Compile a process that is already parsed."""
    definition = next(iter(extensions(process.element, "workflowDefinition")), None)
    reading = _ModelCompilation(model, process, workflow)
    nodes = sorted(reading.nodes(), key=lambda node: str(node["id"]))
    return Compiled(
        process_id=process.id,
        verb=workflow.name,
        definition_id=None if definition is None else definition.get("definitionId") or "",
        ir={
            "process": _process(process, workflow, definition),
            "nodes": nodes,
            "edges": sorted((_edge(flow) for _, flow in process.flows()), key=lambda edge: str(edge["id"])),
            "messages": sorted(reading.messages(), key=lambda message: str(message["id"])),
            "flags": {
                name: {"type": flag.type.value, "values": list(flag.values), "initial": flag.initial}
                for name, flag in workflow.flag_contract.flags.items()
            },
        },
        policies=_resolve_policies(nodes, policies),
    )


def _process(process: Process, workflow: WorkflowVerb, definition: Element | None) -> Json:
    result: Json = {"id": process.id, "name": process.name, "verb": workflow.name}
    if definition is not None:
        result["definition_id"] = definition.get("definitionId") or ""
        result["workflow_type"] = definition.get("workflowType") or process.id
        result["workflow_id_template"] = definition.get("workflowIdTemplate") or ""
    return result


def _edge(flow: SequenceFlow) -> Json:
    result: Json = {"id": flow.id, "source": flow.source, "target": flow.target}
    return result if flow.condition is None else {**result, "condition": flow.condition.text}


def _resolve_policies(nodes: Iterable[Json], policies: Mapping[str, Policy]) -> Json:
    """Return every policy that a task names, in full."""
    resolved: Json = {}
    for node in nodes:
        name = node.get("task", {}).get("policy")
        if not name:
            continue
        if name not in policies:
            raise Refused(f"the task {node['id']} names the policy {name}, which no loaded policies file has")
        resolved[name] = policies[name].model_dump(mode="json", exclude={"name"})
    return resolved


class _ModelCompilation:
    """The compilation of one model."""

    def __init__(self, model: Definitions, process: Process, workflow: WorkflowVerb) -> None:
        self._model = model
        self._process = process
        self._workflow = workflow
        self._keys: dict[str, set[str]] = {}
        self._ripe: dict[str, set[str]] = {}
        self._find_writers()

    def nodes(self) -> Iterator[Json]:
        """Yield every node at every depth, each with the id of its scope."""
        yield from self._inside(self._process.scope, self._process.id)

    def _inside(self, scope: Scope, around: str) -> Iterator[Json]:
        for node in scope.nodes:
            yield self._node(node, around)
            if node.scope is not None:
                yield from self._inside(node.scope, node.id)

    def messages(self) -> Iterator[Json]:
        """Yield every message that the process waits for or sends, with the source of its key."""
        for message in self._model.messages.values():
            result: Json = {"id": message.id, "name": message.name}
            key = None if message.correlation_key is None else correlation_name(message.correlation_key)
            if key is not None:
                result["key"] = key
            subscription = next(iter(extensions(message.element, "subscription")), None)
            if subscription is not None:
                result["template"] = subscription.get("correlationKeyTemplate") or ""
            elif key is not None and key in self._workflow.correlation:
                result["template"] = self._workflow.correlation[key]
            yield result

    def _node(self, node: FlowNode, around: str) -> Json:
        result: Json = {"id": node.id, "name": node.name, "type": node.element.local, "scope": around}
        if is_job(node):
            result |= self._job(node)
        if node.kind is NodeKind.USER_TASK:
            result["gate"] = self._gate(node)
        if node.kind is NodeKind.RECEIVE_TASK:
            result["message"] = self._message_name(node.message)
        for event in node.events:
            result |= self._event(event)
        if node.kind is NodeKind.BOUNDARY_EVENT:
            result |= {"attached_to": node.attached_to, "interrupting": node.is_interrupting}
        if node.kind is NodeKind.START_EVENT and not node.is_interrupting:
            result["interrupting"] = False
        if node.default:
            result["default"] = node.default
        for name in ("is_event_sub_process", "is_for_compensation"):
            if getattr(node, name):
                result[name] = True
        if node.multi_instance is not None:
            result["multi_instance"] = "sequential" if node.multi_instance.is_sequential else "parallel"
        return result

    def _job(self, node: FlowNode) -> Json:
        task: Json = {"type": node.binding.job_type}
        definition = next(iter(extensions(node.element, "taskDefinition")), None)
        policy = (definition.get("policyRef") if definition is not None else None) or self._workflow.policy_of(
            node.binding.job_type
        )
        if policy and not node.binding.job_type.startswith(OWN_JOBS):
            task["policy"] = policy
        if node.binding.retries is not None:
            task["retries"] = node.binding.retries.text
        template = definition.get("idempotencyKeyTemplate") if definition is not None else None
        if template:
            task["idempotency_key_template"] = template
        result: Json = {"task": task}
        if headers := dict(_headers(node)):
            result["headers"] = headers
        mappings = extensions(node.element, "ioMapping")
        if mappings:
            result["mapping"] = [[step.local, step.get("source"), step.get("target")] for step in _steps(mappings)]
        for name, keys in (("keys", self._keys), ("ripe_keys", self._ripe)):
            if node.id in keys:
                result[name] = sorted(keys[node.id])
        return result

    def _gate(self, node: FlowNode) -> Json:
        given = next((update.get("name") for update in extensions(node.element, "updateDefinition")), None)
        gate = next((gate for gate in self._workflow.gates.values() if gate.task == node.id), None)
        result: Json = {"name": given or f"Update_{node.id}"}
        return result if gate is None else {**result, "gate": gate.name, "decisions": list(gate.decisions)}

    def _event(self, event: EventDefinition) -> Json:
        match event:
            case MessageEvent():
                return {"message": self._message_name(event.ref)}
            case Timer():
                when = "" if event.when is None else event.when.text
                return {"timer": {"kind": "" if event.kind is None else event.kind.value, "when": when}}
            case Error():
                return {"error": _code(event.ref, self._model.errors)}
            case Escalation():
                return {"escalation": _code(event.ref, self._model.escalations)}
            case SignalEvent():
                return {"signal": _code(event.ref, self._model.signals)}
            case Link():
                return {"link": event.name}
            case Compensate():
                return {"compensates": event.ref}
            case Terminate():
                return {"terminates": True}
            case _:
                return {"event": event.element.local}

    def _message_name(self, reference: str) -> str:
        declared = self._model.messages.get(reference)
        return reference if declared is None else declared.name

    def _find_writers(self) -> None:
        """Record which jobs write the key of which wait."""
        for scope, node in self._process.walk():
            for key in self._keys_of(node):
                found = find_last_writers(self._process, scope, node)
                for job in found.certain:
                    self._keys.setdefault(job, set()).add(key)
                for job in found.possible:
                    self._ripe.setdefault(job, set()).add(key)

    def _keys_of(self, node: FlowNode) -> Iterator[str]:
        references = [node.message] if node.kind is NodeKind.RECEIVE_TASK else []
        if node.kind in _CATCHING:
            references += [event.ref for event in node.events if isinstance(event, MessageEvent)]
        for reference in references:
            message = self._model.messages.get(reference)
            written = None if message is None else message.correlation_key
            if written is not None and (key := correlation_name(written)) is not None:
                yield key


def _headers(node: FlowNode) -> Iterator[tuple[str, str]]:
    yield from ((header.key, header.value) for header in node.binding.headers)
    for group in extensions(node.element, "taskHeaders"):
        yield from ((h.get("key") or "", h.get("value") or "") for h in group.find_all("header", AMEIDE))


def _steps(mappings: Iterable[Element]) -> Iterator[Element]:
    """Yield the inputs and outputs in document order, which is the order of execution."""
    for mapping in mappings:
        yield from (step for step in mapping.children if step.namespace == AMEIDE)


def _code(reference: str, declared: Mapping[str, Any]) -> str:
    found = declared.get(reference)
    return reference if found is None else found.code or found.name
