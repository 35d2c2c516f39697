"""A flag that replaces a literal has the type of that literal."""

from collections.abc import Iterator

from verblint.bpmn.places import flag_places, process_id
from verblint.contracts.contract import FlagType
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB312", "flag-type-of-place", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """A flag that replaces a literal has the type of that literal.

    A timer, a date and an assignee are strings, a priority is an integer. A flag of another type raises an incident
    when the token arrives.

    Wrong:  <timeDuration>=orch_docs_received</timeDuration>, and the flag is a boolean
    Right:  <timeDuration>=orch_document_deadline</timeDuration>, and the flag is a string such as P5D
    """
    for written in flag_places(context):
        verb = context.contracts.of_process(process_id(written.element))
        flag = verb.flags.get(written.flag) if verb is not None else None
        if flag is None:
            continue
        wanted = FlagType.INTEGER if written.attribute == "priority" else FlagType.STRING
        if flag.type is not wanted and (flag.type is not FlagType.ENUM or wanted is not FlagType.STRING):
            message = f"{flag.name} is of type {flag.type} where the engine needs a flag of type {wanted}"
            yield context.at(
                written.value, message, hint=f"Name a flag of type {wanted}", detail=f"{written.element.local}"
            )
