"""A condition can be true and it can be false."""

from collections.abc import Iterator

from verblint.feel.branch import Branch
from verblint.feel.condition import And, Not, Or, evaluate
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule("HB217", "constant-condition", Severity.ERROR, on=("conditionExpression",))
def check(context: Context) -> Iterator[Finding]:
    """A condition can be true and it can be false.

    A flow that is always taken makes its neighbours unreachable; one that is never taken is dead. Either the condition
    has a mistake, or the diagram shows a choice that does not exist.

    Wrong:  =true
    Wrong:  =orch_outcome = "approved" and orch_outcome = "rejected"
    Right:  =orch_outcome = "approved"
    """
    yield from refused_conditions(context)
    for branch in context.branches:
        always = _constant(branch, context)
        if always is not None:
            message = "the condition is always true" if always else "the condition is never true"
            hint = (
                "Make it the default flow, or test a flag" if always else "Test values that can occur, or drop the flow"
            )
            yield context.at(branch.condition, message, hint=hint)


def _constant(branch: Branch, context: Context) -> bool | None:
    if branch.test is None:
        return None
    verb = context.contracts.of_process(branch.process.id)
    if verb is None and not isinstance(branch.test, Not | And | Or):
        # A comparison with a flag that may have any value can be true or false.
        return None
    from verblint.feel.assignments import assignments

    cases = assignments([branch.test], verb.flags if verb is not None else {})
    truths = {bool(evaluate(branch.test, case)) for case in cases or ()}
    return truths.pop() if len(truths) == 1 else None
