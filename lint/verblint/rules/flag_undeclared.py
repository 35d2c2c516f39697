"""A flag that a model reads is declared by its verb."""

from collections.abc import Iterator

from verblint.bpmn.expression import Expression
from verblint.bpmn.places import flag_places, process_id
from verblint.feel.condition import flags
from verblint.names import nearest
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB204", "flag-undeclared", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A flag that a model reads is declared by its verb.

    The runtime sets every declared flag when the process starts, and lets no other flag through. A flag that is not
    declared is always null, and a null flag is an incident or the wrong branch.

    Wrong:  =orch_aproved = true, and the verb declares orch_approved
    Right:  flags: {orch_approved: {type: boolean, initial: false}}, and =orch_approved = true
    """
    for process, name, written, start in _read(context) if context.contracts.workflows else ():
        verb = context.contracts.of_process(process)
        if verb is not None and name not in verb.flags:
            message = f"the verb {verb.name} declares no flag {name}"
            place = written.part(start, start + len(name))
            yield context.at(place, message, hint=_hint(name, list(verb.flags)), detail=name)


def _read(context: Context) -> Iterator[tuple[str, str, Expression, int]]:
    """Yield every use of a flag: the process, the name, and its place in an expression."""
    for branch in context.branches:
        for flag in flags(branch.test) if branch.test is not None else ():
            yield branch.process.id, flag.name, branch.condition, flag.start
    for written in flag_places(context):
        if written.flag:
            yield process_id(written.element), written.flag, written.value, written.value.text.index(written.flag)


def _hint(name: str, declared: list[str]) -> str:
    near = nearest(name, declared)
    return f"Write {near}" if near else f"Declare it under flags in the verb's contract, with an initial value: {name}"
