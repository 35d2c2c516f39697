"""A model defines no agents."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.bpmn.places import values_with
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB109", "agent", Severity.ERROR, on=("agentDefinition",), words=("fromAi",))
def check(context: Context) -> Iterator[Finding]:
    """A model defines no agents.

    An agent decides at run time what to call next. A process shows what can happen, and every step of it is a verb of
    the allow-list.

    Wrong:  <zeebe:agentDefinition agentType="..." />
    Right:  a serviceTask whose verb asks the model and returns flags
    """
    for element in context.every("agentDefinition", namespace=ZEEBE):
        message = f"the {describe(element)} lets an agent choose what happens"
        yield context.at(element, message, hint="Ask the agent inside a sub-verb, which returns flags")
    for value in values_with(context, _asks_agent, "fromAi"):
        if value.is_feel:
            message = "the expression takes a value from an agent"
            yield context.at(value, message, hint="Ask the agent inside a sub-verb", detail="fromAi")


def _asks_agent(text: str) -> bool:
    return "fromAi" in text
