"""A branch: a conditional sequence flow, with its condition parsed once for all rules."""

from collections.abc import Iterator

from verblint.bpmn.expression import Expression
from verblint.bpmn.model import Definitions, FlowNode, Process, Scope, SequenceFlow
from verblint.feel.condition import Test
from verblint.feel.grammar import ConditionError, parse
from verblint.startup.value import value


@value(eq=False, guarded=False)
class Branch:
    """A conditional flow in its scope; either `test` or `error` is set, never both."""

    process: Process
    scope: Scope
    flow: SequenceFlow
    condition: Expression
    test: Test | None
    error: ConditionError | None

    @property
    def gateway(self) -> FlowNode | None:
        """The node the flow leaves, if it exists."""
        return self.scope.by_id.get(self.flow.source)


def branches(model: Definitions) -> Iterator[Branch]:
    """Yield every conditional flow of every process of a file, in document order."""
    for process in model.processes:
        for scope, flow in process.flows():
            if flow.condition is not None:
                yield _branch(process, scope, flow, flow.condition)


def _branch(process: Process, scope: Scope, flow: SequenceFlow, condition: Expression) -> Branch:
    try:
        return Branch(process, scope, flow, condition, parse(condition.text), None)
    except ConditionError as error:
        return Branch(process, scope, flow, condition, None, error)
