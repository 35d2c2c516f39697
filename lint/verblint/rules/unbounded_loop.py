"""In a file with the Ameide extension a loop is bounded by a counter."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import is_used
from verblint.bpmn.element import AMEIDE
from verblint.bpmn.model import Scope
from verblint.feel.branch import Branch
from verblint.feel.condition import Comparison, walk
from verblint.flow.graph import looping
from verblint.report.finding import Finding, Severity
from verblint.rule import NARROWED, Context, rule

_HINT = "Let a gateway in the loop look at an integer flag that counts the rounds"


@rule("AM721", "unbounded-loop", Severity.WARNING, on=(AMEIDE, NARROWED))
def check(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension a loop is bounded by a counter.

    A loop that ends when some flag changes may never end. A gateway in it that also reads an integer flag, which a
    sub-verb increments, bounds it.

    Wrong:  a loop that is left when orch_docs_received = true
    Right:  a loop that is left when orch_docs_received = true or orch_attempts >= 5
    """
    for process in context.model.processes if is_used(context) else ():
        for scope in process.scope.scopes():
            loop = looping(scope)
            names = {node.id for node in loop}
            if loop and not any(_counts(branch) for branch in context.branches if _leaves(branch, scope, names)):
                path = ", ".join(node.id for node in loop)
                yield context.at(loop[0].element, f"nothing bounds the loop through {path}", hint=_HINT)


def _leaves(branch: Branch, scope: Scope, names: set[str]) -> bool:
    return branch.scope is scope and branch.flow.source in names


def _counts(branch: Branch) -> bool:
    """Return whether a condition compares an integer."""
    tests = walk(branch.test) if branch.test is not None else iter(())
    return any(isinstance(test, Comparison) and type(test.literal.value) is int for test in tests)
