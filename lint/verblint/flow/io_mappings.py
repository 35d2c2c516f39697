"""Mappings on activities and events, and which of them pass the contract's variables through unchanged."""

from collections.abc import Iterator

from verblint.bpmn.binding import Mapping
from verblint.bpmn.element import ZEEBE
from verblint.bpmn.model import FlowNode
from verblint.contracts.contract import WorkflowVerbFields
from verblint.feel.grammar import is_flag
from verblint.feel.tokenizer import single_name
from verblint.rule import Context
from verblint.startup.value import value

PAYLOAD = "domain_payload"
HASH = "domain_payload_hash"


@value(eq=False)
class MappedNode:
    """A node with mappings, and the verb whose variables it must pass through (None if unknown)."""

    node: FlowNode
    verb: WorkflowVerbFields | None

    @property
    def mappings(self) -> tuple[Mapping, ...]:
        """Inputs and outputs in document order."""
        return self.node.binding.mappings

    def identities(self, direction: str) -> set[str]:
        """Return the variables that a direction passes through unchanged."""
        return {m.target for m in self.mappings if m.direction == direction and self.is_identity(m)}

    def is_identity(self, mapping: Mapping) -> bool:
        """Return whether a variable of the contract is mapped to itself."""
        if mapping.source is None or not mapping.source.is_feel:
            return False
        name = single_name(mapping.source.feel)
        return name is not None and name == mapping.target and self._is_of_contract(name)

    @property
    def missing(self) -> list[str]:
        """The variables that the outputs omit; any output disables the default propagation of results."""
        wanted = [PAYLOAD, HASH, *(self.verb.flags if self.verb is not None else ())]
        carried = self.identities("output")
        return [name for name in wanted if name not in carried]

    def _is_of_contract(self, name: str) -> bool:
        if name in (PAYLOAD, HASH):
            return True
        return name in self.verb.flags if self.verb is not None else is_flag(name)


def mapped_nodes(context: Context) -> Iterator[MappedNode]:
    """Yield every node with at least one mapping, in every process of a file."""
    for process in context.model.processes if (ZEEBE, "ioMapping") in context.elements else ():
        verb = context.contracts.of_process(process.id)
        for _, node in process.walk():
            if node.binding.mappings:
                yield MappedNode(node, verb)
