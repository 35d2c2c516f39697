"""A value that a condition compares an enum flag with is one of the flag's values."""

from collections.abc import Iterator

from verblint.contracts.contract import FlagType
from verblint.feel.condition import Comparison, FlagRead, Literal, Membership, Test, walk
from verblint.names import nearest
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB218", "unknown-flag-value", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A value that a condition compares an enum flag with is one of the flag's values.

    The verb declares the values of the flag, and the runtime lets no other through. A misspelt value never matches: the
    flow is dead, and no error reports it.

    Wrong:  =orch_review_outcome = "aproved"
    Right:  =orch_review_outcome = "approved"
    """
    for branch in context.branches:
        verb = context.contracts.of_process(branch.process.id)
        if verb is None or branch.test is None:
            continue
        for flag, literal in _iterate_literals(branch.test):
            declared = verb.flags.get(flag.name)
            if declared is None or declared.type is not FlagType.ENUM or not isinstance(literal.value, str):
                continue
            if literal.value not in declared.values:
                place = branch.condition.part(literal.start, literal.end)
                message = f'"{literal.value}" is not a value of {flag.name}'
                hint = _hint(literal.value, declared.values)
                yield context.at(place, message, hint=hint, detail=f"{flag.name}={literal.value}")


def _iterate_literals(test: Test) -> Iterator[tuple[FlagRead, Literal]]:
    for part in walk(test):
        match part:
            case Comparison(flag, _, literal):
                yield flag, literal
            case Membership(flag, literals):
                yield from ((flag, literal) for literal in literals)
            case _:
                continue


def _hint(value: str, values: tuple[str, ...]) -> str:
    near = nearest(value, values)
    return f'Write "{near}"' if near else "Write one of: " + ", ".join(f'"{known}"' for known in values)
