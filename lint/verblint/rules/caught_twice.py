"""No two events in one place catch the same thing."""

from collections.abc import Iterator

from verblint.flow.rival_events import catching
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule(
    "HB026",
    "caught-twice",
    Severity.ERROR,
    on=("messageEventDefinition", "errorEventDefinition", "escalationEventDefinition"),
)
def check(context: Context) -> Iterator[Finding]:
    """No two events in one place catch the same thing.

    If two boundary events of one activity, two event subprocesses of one scope or two events after one gateway catch
    the same message or error, it is undefined which of them acts.

    Wrong:  two boundary events on one task, both for the message documents-received
    Right:  one of them
    """
    for place in catching(context.model):
        seen: set[str] = set()
        for name, node in place:
            if name in seen:
                message = f"the {describe(node.element)} catches {name}, which another event in its place catches"
                yield context.at(node.element, message, hint="Remove one of them", detail=name)
            seen.add(name)
