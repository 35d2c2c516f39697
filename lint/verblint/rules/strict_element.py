"""A model has only the elements of its profile."""

from collections.abc import Iterator

from verblint.bpmn.element import BPMN, Element
from verblint.bpmn.model import FlowNode, Process
from verblint.contracts.profiles import Profile, profile_of
from verblint.flow.graph import looping
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import NARROWED, Context, rule


@rule("AM751", "strict-element", Severity.ERROR, on=(NARROWED,))
def check(context: Context) -> Iterator[Finding]:
    """A model has only the elements of its profile.

    The profile `strict-v1` has start and end events without definitions, sequence flows, service, send, user and
    receive tasks, message events, exclusive gateways and subprocesses. Timers, boundary events, parallel branches and
    loops are not in it, and neither is what engines ignore: notes, lanes, data.

    Wrong:  <parallelGateway id="split" /> with profile = "strict-v1"
    Right:  <exclusiveGateway id="decide" />
    """
    profile = profile_of(context)
    for element in (*_strangers(context, profile), *_odd(context, profile)):
        message = f"the {describe(element)} is not in the profile {profile.name}"
        hint = "Use what the profile has, or choose another profile"
        yield context.at(element, message, hint=hint, detail=f"{element.local} {_number(element)}")
    for process in () if profile.allows_loops else context.model.processes:
        yield from _loops(context, process, profile)


def _strangers(context: Context, profile: Profile) -> Iterator[Element]:
    """Yield the elements that the profile does not have, except those inside another one."""
    for (namespace, local), group in context.elements.items() if profile.elements else ():
        if namespace == BPMN and not profile.has(local):
            yield from (e for e in group if e.parent is None or profile.has(e.parent.local))


def _odd(context: Context, profile: Profile) -> Iterator[Element]:
    """Yield the nodes of the profile in a form that it does not allow."""
    for process in context.model.processes if profile.elements else ():
        yield from (node.element for _, node in process.walk() if _is_odd(node, profile))


def _is_odd(node: FlowNode, profile: Profile) -> bool:
    if not profile.has(node.element.local):
        return False
    written = tuple(event.element.local for event in node.events)
    # A definition that the profile does not have is reported by itself.
    has_known = all(map(profile.has, written))
    has_wrong = has_known and profile.definitions.get(node.kind, written) != written
    return has_wrong or node.is_event_sub_process or node.is_for_compensation


def _number(element: Element) -> int:
    """Return its index among its siblings: many of these elements have no id."""
    return next((n for n, child in enumerate(element.parent.children) if child is element), 0) if element.parent else 0


def _loops(context: Context, process: Process, profile: Profile) -> Iterator[Finding]:
    for scope in process.scope.scopes():
        for node in looping(scope)[:1]:
            message = f"the loop through {node.id} is not in the profile {profile.name}"
            yield context.at(node.element, message, hint="Draw it without a loop", detail="loop")
