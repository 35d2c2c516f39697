"""Outlines: the processes in a model and where they use verbs, read from the model itself."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from verblint.bpmn.ameide_schema import extensions
from verblint.bpmn.assembly import assemble
from verblint.bpmn.element import AMEIDE
from verblint.bpmn.model import Definitions, FlowNode, NodeKind, Process
from verblint.flow.job_nodes import jobs
from verblint.flow.message_waits import CATCHING, message_refs
from verblint.names import FOREIGN_JOBS, OWN_JOBS
from verbworker.engine.protocol import Resource
from verbworker.model.element_tree import open_tree
from verbworker.model.first_jobs import find_first_jobs


@dataclass(frozen=True, slots=True)
class Use:
    """One element of a model that calls a verb.

    `is_first` is true if no job runs before it on some path. `mapping` has the steps of an ioMapping of the profile:
    a direction, a source and a target.
    """

    verb: str
    process_id: str
    element_id: str
    resource: str
    line: int
    is_first: bool = False
    mapping: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Outline:
    """The contents of one file: its executable processes, where they call verbs, and the messages they take."""

    resource: str
    processes: tuple[str, ...]
    uses: tuple[Use, ...]
    messages: frozenset[str] = frozenset()


def outline(model: Resource) -> Outline:
    """Return the outline of a model; raise `Refused` when it cannot be parsed."""
    with open_tree(model.content, model.name) as root:
        definitions = assemble(root)
        uses = tuple(use for process in definitions.executable for use in _uses(process, model.name))
        return Outline(
            model.name, tuple(process.id for process in definitions.executable), uses, _messages(definitions)
        )


def _uses(process: Process, resource: str) -> Iterator[Use]:
    first = find_first_jobs(process)
    for _, node in jobs(process):
        if node.binding.job_type:
            place = (process.id, node.id, resource, node.element.line)
            yield Use(node.binding.job_type, *place, node.id in first, tuple(_mapping(node)))


def _mapping(node: FlowNode) -> Iterator[tuple[str, str, str]]:
    for mapping in extensions(node.element, "ioMapping"):
        for step in mapping.children:
            if step.namespace == AMEIDE:
                yield step.local, step.get("source") or "", step.get("target") or ""


def _messages(definitions: Definitions) -> frozenset[str]:
    nodes = (node for process in definitions.executable for _, node in process.walk(NodeKind.RECEIVE_TASK, *CATCHING))
    declared = (definitions.messages.get(reference) for node in nodes for reference in message_refs(node))
    return frozenset(message.name for message in declared if message is not None)


def verbs_in(uses: Iterable[Use]) -> Iterator[Use]:
    """Return the uses of an application's own verbs, without the runtime's and connectors'."""
    return (use for use in uses if not use.verb.startswith((OWN_JOBS, FOREIGN_JOBS)))
