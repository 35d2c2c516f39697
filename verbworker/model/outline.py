"""Outlines: the processes in a model and where they use verbs, read from the model itself."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from verblint.bpmn.assembly import assemble
from verblint.bpmn.model import Definitions, NodeKind
from verblint.flow.job_nodes import jobs
from verblint.flow.message_waits import CATCHING, message_refs
from verblint.names import FOREIGN_JOBS, OWN_JOBS
from verbworker.engine.protocol import Resource
from verbworker.model.element_tree import open_tree


@dataclass(frozen=True, slots=True)
class Use:
    """One element of a model that calls a verb."""

    verb: str
    process_id: str
    element_id: str
    resource: str
    line: int


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
        uses = tuple(
            Use(node.binding.job_type, process.id, node.id, model.name, node.element.line)
            for process in definitions.executable
            for _, node in jobs(process)
            if node.binding.job_type
        )
        return Outline(
            model.name, tuple(process.id for process in definitions.executable), uses, _messages(definitions)
        )


def _messages(definitions: Definitions) -> frozenset[str]:
    nodes = (node for process in definitions.executable for _, node in process.walk(NodeKind.RECEIVE_TASK, *CATCHING))
    declared = (definitions.messages.get(reference) for node in nodes for reference in message_refs(node))
    return frozenset(message.name for message in declared if message is not None)


def verbs_in(uses: Iterable[Use]) -> Iterator[Use]:
    """Return the uses of an application's own verbs, without the runtime's and connectors'."""
    return (use for use in uses if not use.verb.startswith((OWN_JOBS, FOREIGN_JOBS)))
