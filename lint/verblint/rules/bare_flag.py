"""A flag is compared, even when it is true or false."""

from collections.abc import Iterator

from verblint.bpmn.element import Place
from verblint.contracts.contract import Flag, FlagType
from verblint.feel.condition import Bare, walk
from verblint.report.finding import Edit, Finding, Fix, Severity
from verblint.rulebook.rule import Context, rule


@rule("HB215", "bare-flag", Severity.ERROR, on=("conditionExpression",))
def check(context: Context) -> Iterator[Finding]:
    """A flag is compared, even when it is true or false.

    A bare flag that is null or not a boolean raises an incident, although the gateway has a default flow. Compared
    with true it is simply false, and the default flow is taken. The fix appends `= true`.

    Wrong:  =orch_docs_received
    Right:  =orch_docs_received = true
    """
    for branch in context.branches:
        verb = context.contracts.of_process(branch.process.id)
        for test in walk(branch.test) if branch.test is not None else ():
            if not isinstance(test, Bare):
                continue
            flag = test.flag
            place = branch.condition.part(flag.start, flag.end)
            declared = verb.flags.get(flag.name) if verb is not None else None
            message = f"the flag {flag.name} stands alone, which is an incident when it is not a boolean"
            yield context.at(
                place, message, hint=_hint(flag.name, declared), detail=flag.name, fix=_fix(place, declared)
            )


def _hint(name: str, declared: Flag | None) -> str:
    return f"Write: {name} = true" if _may_be_boolean(declared) else f"Compare {name} with one of its values"


def _fix(place: Place, declared: Flag | None) -> Fix | None:
    if not _may_be_boolean(declared):
        return None
    return Fix("compare the flag with true", (Edit(place.end, place.end, b" = true"),))


def _may_be_boolean(declared: Flag | None) -> bool:
    return declared is None or declared.type is FlagType.BOOLEAN
