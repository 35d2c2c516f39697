"""A condition compares a flag with a value of the flag's type."""

from collections.abc import Iterator

from verblint.contracts.contract import Flag, FlagType
from verblint.feel.condition import Comparison, Membership, Value, walk
from verblint.report.finding import Finding, Severity
from verblint.rulebook.rule import CONTRACTS, Context, rule

_PYTHON_TYPES = {FlagType.BOOLEAN: bool, FlagType.INTEGER: int, FlagType.STRING: str, FlagType.ENUM: str}
_EXAMPLES = {
    FlagType.BOOLEAN: "= true",
    FlagType.INTEGER: ">= 3",
    FlagType.STRING: '= "text"',
    FlagType.ENUM: '= "value"',
}


@rule("HB220", "flag-type-mismatch", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A condition compares a flag with a value of the flag's type.

    The comparison is null when the types differ, and a condition that is null raises an incident. Greater and less are
    only for flags declared as integer. A declared flag is never null, so a comparison with null is pointless.

    Wrong:  =orch_attempts = "3", and the flag is an integer
    Right:  =orch_attempts = 3
    """
    for branch in context.branches:
        verb = context.contracts.of_process(branch.process.id)
        if verb is None or branch.test is None:
            continue
        for test in walk(branch.test):
            if not isinstance(test, Comparison | Membership):
                continue
            flag = verb.flags.get(test.flag.name)
            literals = (test.literal,) if isinstance(test, Comparison) else test.literals
            wrong = next((literal for literal in literals if flag is not None and not _fits(literal.value, flag)), None)
            if flag is not None and wrong is not None:
                place = branch.condition.part(wrong.start, wrong.end)
                message = f"{flag.name} is of type {flag.type} and is compared with {_name_type(wrong.value)}"
                hint = f"Write: {flag.name} {_EXAMPLES[flag.type]}"
                yield context.at(place, message, hint=hint, detail=flag.name)


def _fits(value: Value, flag: Flag) -> bool:
    return type(value) is _PYTHON_TYPES[flag.type]


def _name_type(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case _:
            return "a string"
