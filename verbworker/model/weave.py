"""Weaving: the deployed model is the authored one, byte for byte, plus the runtime's listeners and retries.

The model is not serialized again. Text is inserted at the tag positions from the linter's parser, so that prefixes,
comments, line ends and the diagram stay as authored. Inserted elements declare their own namespace.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from verblint.bpmn.assembly import assemble
from verblint.bpmn.element import ZEEBE, Element
from verblint.bpmn.event_cause import Compensate, Link, MessageEvent
from verblint.bpmn.model import Definitions, FlowNode, NodeKind, Process, Scope
from verblint.bpmn.zeebe_schema import Version
from verblint.fixes.edits import apply
from verblint.fixes.insertions import into_end, into_group, raw_name
from verblint.flow.job_nodes import is_job
from verblint.names import COMPENSATE, OWN_JOBS
from verblint.report import Edit, Fix
from verblint.settings import Settings
from verbworker.contract.policy import DEFAULT_POLICY
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import Refused
from verbworker.model.catches import StepCatches, read_catches
from verbworker.model.element_tree import open_tree
from verbworker.model.native_tasks import hear_tasks, refuse_unheard
from verbworker.model.waits import ModelWait, count_steps, gateway_before, read_waits
from verbworker.profile.compile import Compiled, compile_process, only_process, owner_of
from verbworker.profile.task_profile import HEADER

PARK = f"{OWN_JOBS}park"
UNPARK = f"{OWN_JOBS}unpark"
FIRED = f"{OWN_JOBS}fired"
COMPLETE = f"{OWN_JOBS}complete"
CANCEL = f"{OWN_JOBS}cancel"
START = f"{OWN_JOBS}start"

PLAIN_PROCESS = "plain"
"""What deployments hold instead of a workflow verb, whose name has a dot, if a process is not hollow."""

DEFAULT_ENGINE = Settings().engine_version  # what the linter assumes too
LISTENER_RETRIES = 100  # a temporarily unavailable database must not become an incident
COMPENSATE_RETRIES = 10  # failed undos do not use these up: each undo has the retries of its own policy

CANCEL_LISTENERS_SINCE = (8, 10)  # older engines refuse a model that has one

_Listeners = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Woven:
    """A model to deploy, and what the runtime must know about it afterwards."""

    content: bytes
    process_id: str
    verb: str
    waits: dict[str, ModelWait]
    catches: dict[str, StepCatches]
    steps: int
    compiled: Compiled

    @property
    def is_hollow(self) -> bool:
        """Return whether a workflow verb owns the process, so that the runtime follows its instances."""
        return self.verb != PLAIN_PROCESS


def take_plain(content: bytes, registry: Registry) -> Woven:
    """Return a model that is not hollow: it is deployed as authored, and no entry of the runbook follows it.

    Only correlation keys that are not written for Zeebe are added in its words.

    Raises `Refused` when the registry treats it, or a job of it, as hollow.
    """
    with open_tree(content) as root:
        model = assemble(root)
        process = only_process(model)
        _refuse_own_listeners(root)
        for workflow in registry.workflows.values():
            if workflow.process == process.id:
                raise Refused(
                    f"{process.id} is the process of the workflow verb {workflow.name}, so it must be hollow;"
                    " take it out of plain in [tool.verblint]"
                )
        for _, node in process.walk():
            if is_job(node) and registry.find(node.binding.job_type) is not None:
                raise Refused(
                    f"line {node.element.line} calls the verb {node.binding.job_type} in a plain process;"
                    " verbs run in hollow processes, so register a plain task for it"
                )
        return Woven(
            content=apply(content, [Fix("woven", tuple(_subscribe(model)))]),
            process_id=process.id,
            verb=PLAIN_PROCESS,
            waits={},
            catches=read_catches(model, process),
            steps=count_steps(process.scope),
            compiled=Compiled(process.id, PLAIN_PROCESS, None, {}, {}),
        )


def weave(content: bytes, registry: Registry, *, engine: Version = DEFAULT_ENGINE) -> Woven:
    """Return the deployed form of an authored model; raise `Refused` with one sentence when that is impossible.

    `engine` is the linter's profile of the engine: what only later ones know is not woven in. The same bytes always
    give the same result. Exactly these bytes must have passed the linter, for the same engine.
    """
    with open_tree(content) as root:
        return _woven(root, registry, engine)


def _woven(root: Element, registry: Registry, engine: Version) -> Woven:
    model = assemble(root)
    process, workflow = _find_owner(model, registry)
    _refuse_own_listeners(root)
    _refuse_own_headers(process)
    refuse_unheard(process, engine)
    compiled = compile_process(model, process, workflow, registry.policies)
    edits = [
        *_subscribe(model),
        *_add_listeners(process, _ends_of(engine)),
        *hear_tasks(process, LISTENER_RETRIES),
        *_set_retries(process, compiled, registry),
        *_name_profiles(process, compiled),
    ]
    return Woven(
        content=apply(root.document.source.content, [Fix("woven", tuple(edits))]),
        process_id=process.id,
        verb=workflow.name,
        waits=read_waits(model, process, workflow),
        catches=read_catches(model, process),
        steps=count_steps(process.scope),
        compiled=compiled,
    )


def _subscribe(model: Definitions) -> Iterator[Edit]:
    """Write for Zeebe the correlation keys that were read in other words: a broker knows no others."""
    for message in model.messages.values():
        key = message.correlation_key
        if key is None or key.element.namespace == ZEEBE:
            continue
        holder = message.element.find("extensionElements")
        assert holder is not None, "the key was read in it"
        yield into_end(holder, f'<zeebe:subscription xmlns:zeebe="{ZEEBE}" correlationKey={quoteattr(key.text)}/>')


def _find_owner(model: Definitions, registry: Registry) -> tuple[Process, WorkflowVerb]:
    """Return the only process of a file, and the verb it performs."""
    process = only_process(model)
    return process, owner_of(process, registry.workflows.values())


def _refuse_own_listeners(root: Element) -> None:
    for local in ("executionListener", "taskListener"):
        for element in root.walk(local, ZEEBE):
            written = element.get("type") or ""
            if written.startswith(OWN_JOBS) or (written.startswith("=") and OWN_JOBS in written):
                raise Refused(
                    f"line {element.line} has the listener {written}, which is woven in when the model is deployed;"
                    " deploy the authored file"
                )


def _refuse_own_headers(process: Process) -> None:
    for _, node in process.walk():
        for header in node.binding.headers:
            if header.key.startswith(OWN_JOBS):
                raise Refused(
                    f"line {header.element.line} has the header {header.key}, and such headers are woven in when the"
                    " model is deployed; deploy the authored file"
                )


def _ends_of(engine: Version) -> _Listeners:
    """Return the listeners of a process: it reports its end and, where the engine can, its cancellation."""
    cancels = (("cancel", CANCEL),) if engine >= CANCEL_LISTENERS_SINCE else ()
    return ("end", COMPLETE), *cancels


def _add_listeners(process: Process, ends: _Listeners) -> Iterator[Edit]:
    yield _listeners_in(process.element, ends)
    for scope, node in process.walk():
        is_inner = scope is not process.scope
        if listeners := _listeners_of(scope, node, is_inner=is_inner):
            yield _listeners_in(node.element, listeners)


def _listeners_of(scope: Scope, node: FlowNode, *, is_inner: bool) -> _Listeners:
    """Return the execution listeners of an element; a gate needs none: its job or its task listeners report it."""
    match node.kind:
        case NodeKind.RECEIVE_TASK:
            return ("start", PARK), ("end", UNPARK)
        case NodeKind.EVENT_BASED_GATEWAY:
            return (("start", PARK),)
        case NodeKind.CATCH_EVENT if not isinstance(node.event, Link):
            parks = gateway_before(scope, node) is None
            return (*((("start", PARK),) if parks else ()), ("end", UNPARK))
        case NodeKind.BOUNDARY_EVENT if not isinstance(node.event, Compensate):
            return (("end", FIRED),)
        case NodeKind.START_EVENT if is_inner and node.event is not None:
            return (("end", FIRED),)
        case NodeKind.START_EVENT if isinstance(node.event, MessageEvent):
            # Only a message can start an instance unknown to the runtime. Before this event ends, the engine has the
            # process but not yet the message's variables.
            return (("end", START),)
        case _:
            return ()


def _listeners_in(element: Element, listeners: _Listeners) -> Edit:
    return into_group(element, "executionListeners", lambda namespace: _lines(listeners, namespace))


def _lines(listeners: _Listeners, namespace: str) -> str:
    return "".join(
        f'<zeebe:executionListener{namespace} eventType="{event}" type="{job_type}" retries="{LISTENER_RETRIES}"/>'
        for event, job_type in listeners
    )


def _name_profiles(process: Process, compiled: Compiled) -> Iterator[Edit]:
    """Add to every job of a model with a profile a header that names its profile."""
    if compiled.definition_id is None:
        return
    for _, node in process.walk():
        if is_job(node) and not node.binding.job_type.startswith(OWN_JOBS):
            yield into_group(node.element, "taskHeaders", _header(compiled.ir_digest))


def _header(digest: str) -> Callable[[str], str]:
    return lambda namespace: f'<zeebe:header{namespace} key="{HEADER}" value="{digest}"/>'


def _set_retries(process: Process, compiled: Compiled, registry: Registry) -> Iterator[Edit]:
    named = {node["id"]: node["task"].get("policy") for node in compiled.ir["nodes"] if "task" in node}
    for _, node in process.walk():
        definition = node.binding.element
        if definition is None or not is_job(node):
            continue
        written = definition.attribute("retries")
        retries = _retries(node.binding.job_type, named.get(node.id), registry)
        if written is None:
            behind = definition.start + 1 + len(raw_name(definition).encode())
            yield Edit(behind, behind, f' retries="{retries or _unsaid(node)}"'.encode())
        elif retries is not None and written.value != str(retries):
            yield Edit(written.start, written.end, str(retries).encode())


def _retries(job_type: str, policy: str | None, registry: Registry) -> int | None:
    """Return how often a verb is tried; None where no policy defines it, so that the author may."""
    verb = registry.find(job_type)
    name = policy or (verb.policy if verb is not None else None)
    if name is None or job_type == COMPENSATE:
        return None
    return registry.policies.get(name, DEFAULT_POLICY).retry.maximum_attempts


def _unsaid(node: FlowNode) -> int:
    return COMPENSATE_RETRIES if node.binding.job_type == COMPENSATE else DEFAULT_POLICY.retry.maximum_attempts
