"""A link that is thrown is caught once in the same scope."""

from collections import Counter
from collections.abc import Iterator

from verblint.bpmn.event_cause import Link
from verblint.bpmn.model import NodeKind
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB027", "link-pair", Severity.ERROR, on=("linkEventDefinition",))
def check(context: Context) -> Iterator[Finding]:
    """A link that is thrown is caught once in the same scope.

    A link is a jump. Without a target, or with two, an engine refuses the model.

    Wrong:  <intermediateThrowEvent ...><linkEventDefinition name="again" /></intermediateThrowEvent> alone
    Right:  the same, and one intermediateCatchEvent with a link of that name
    """
    for process in context.model.processes:
        for scope in process.scope.scopes():
            links = [(node, event.name) for node in scope.nodes for event in node.events if isinstance(event, Link)]
            caught = Counter(name for node, name in links if node.kind is NodeKind.CATCH_EVENT)
            for node, name in links:
                if not name:
                    yield context.at(
                        node.element, "the link has no name", hint="Write a name on the linkEventDefinition"
                    )
                elif node.kind is NodeKind.THROW_EVENT and name not in caught:
                    message = f"nothing catches the link {name} in this scope"
                    yield context.at(node.element, message, hint="Draw an intermediateCatchEvent with that link")
                elif node.kind is NodeKind.CATCH_EVENT and caught[name] > 1:
                    message = f"the link {name} is caught {caught[name]} times in this scope"
                    yield context.at(node.element, message, hint="Keep one of them")
