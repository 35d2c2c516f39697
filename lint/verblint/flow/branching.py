"""Branching gateways, and the cases their conditions do not handle."""

from collections.abc import Iterator

from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope
from verblint.contracts.contract import WorkflowVerbFields
from verblint.feel.branch import Branch
from verblint.feel.condition import Test, Value, evaluate, variables
from verblint.rule import Context
from verblint.startup.value import value

BRANCHING = (NodeKind.EXCLUSIVE_GATEWAY, NodeKind.INCLUSIVE_GATEWAY)


@value(eq=False)
class GatewayDecision:
    """A gateway without a default flow, and its conditional outgoing flows."""

    process: Process
    scope: Scope
    gateway: FlowNode
    branches: tuple[Branch, ...]

    def find_gaps(self, verb: WorkflowVerbFields | None) -> list[dict[str, Value]] | None:
        """Return the cases in which no flow can be taken, or None if that is unknown."""
        tests = [branch.test for branch in self.branches if branch.test is not None]
        if verb is None or len(tests) < len(self.branches) or not _reads_only_flags(tests, verb):
            return None
        # Imported here because it is needed only with contracts.
        from verblint.feel.assignments import assignments

        cases = assignments(tests, verb.flags)
        if cases is None:
            return None
        return [case for case in cases if not any(evaluate(test, case) for test in tests)]


def decisions_without_default(context: Context) -> Iterator[GatewayDecision]:
    """Yield every gateway that branches by conditions alone, in every process of a file."""
    leaving: dict[tuple[int, str], list[Branch]] = {}
    for branch in context.branches:
        leaving.setdefault((id(branch.scope), branch.flow.source), []).append(branch)
    for process in context.model.processes:
        for scope, node in process.walk(*BRANCHING):
            branches = leaving.get((id(scope), node.id)) if not node.default else None
            if branches:
                yield GatewayDecision(process, scope, node, tuple(branches))


def _reads_only_flags(tests: list[Test], verb: WorkflowVerbFields) -> bool:
    return all(name in verb.flags for test in tests for name in variables(test))
