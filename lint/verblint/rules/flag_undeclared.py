"""A flag that a model reads is declared by its verb."""

from collections.abc import Iterator
from difflib import get_close_matches

from verblint.condition import flags
from verblint.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB204", "flag-undeclared", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """A flag that a model reads is declared by its verb.

    The runtime sets every declared flag when the process starts, and lets no other flag through. A flag that is not
    declared is null for ever, and a null flag is an incident or the wrong branch.

    Wrong:  =orch_aproved = true, and the verb declares orch_approved
    Right:  flags: {orch_approved: {type: boolean, initial: false}}, and =orch_approved = true
    """
    for branch in context.branches:
        verb = context.contracts.of_process(branch.process.id)
        if verb is None or branch.test is None:
            continue
        for flag in flags(branch.test):
            if flag.name not in verb.flags:
                place = branch.condition.part(flag.start, flag.end)
                message = f"the verb {verb.name} declares no flag {flag.name}"
                yield context.at(place, message, hint=_hint(flag.name, list(verb.flags)), detail=flag.name)


def _hint(name: str, declared: list[str]) -> str:
    near = get_close_matches(name, declared, 1)
    return (
        f"Write {near[0]}" if near else f"Declare it under flags in the verb's contract, with an initial value: {name}"
    )
