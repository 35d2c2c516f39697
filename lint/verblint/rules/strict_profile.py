"""What a narrower profile allows and requires."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import extensions
from verblint.bpmn.element import AMEIDE, BPMN, Element
from verblint.bpmn.model import FlowNode, NodeKind, Process
from verblint.contracts.profiles import Profile, profile_of
from verblint.flow.graph import find_looping
from verblint.names import describe, extended_by
from verblint.report import Finding
from verblint.rule import NARROWED, Context, rule
from verblint.startup.pattern import pattern


@rule("AM751", on=(NARROWED,))
def strict_element(context: Context) -> Iterator[Finding]:
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
        for node in find_looping(scope)[:1]:
            message = f"the loop through {node.id} is not in the profile {profile.name}"
            yield context.at(node.element, message, hint="Draw it without a loop", detail="loop")


@rule("AM752", on=(NARROWED,))
def strict_part(context: Context) -> Iterator[Finding]:
    """A model leaves no part of the extension to a default if its profile requires it.

    With the profile `strict-v1` tasks, and only tasks, have headers and a mapping, even when they are empty. Messages
    have a subscription, and user tasks an update definition called `Update_` and their id.

    Wrong:  <userTask id="Review" /> with profile = "strict-v1"
    Right:  <userTask id="Review"> with <ameide:updateDefinition name="Update_Review" />
    """
    profile = profile_of(context)
    for local, parts in profile.parts.items():
        for element in context.every(local):
            for part in (part for part in parts if not extensions(element, part)):
                message = f"the {describe(element)} has no {part}"
                yield context.at(element, message, hint=f"Add an ameide:{part}", detail=part)
    for part, places in profile.places.items():
        for element in context.every(part, namespace=AMEIDE):
            parent = extended_by(element, "ameide")
            if parent not in places:
                message = f"{part} is in {parent or 'no element'}, where the profile {profile.name} has none"
                yield context.at(element, message, hint="Remove it", detail=part)
    if profile.update_prefix:
        yield from _updates(context, profile)


def _updates(context: Context, profile: Profile) -> Iterator[Finding]:
    for task in context.every("userTask"):
        wanted = f"{profile.update_prefix}{task.id}"
        for number, update in enumerate(extensions(task, "updateDefinition")):
            if update.get("name") != wanted:
                message = f"the update of {task.id} is called {update.get('name')}"
                yield context.at(update, message, hint=f'Write name="{wanted}"', detail=f"name {number}")


_ATTRIBUTE = pattern(rb"""\s([^\s=]+)\s*=\s*("[^"]*"|'[^']*')""")


@rule("AM753", on=(NARROWED,))
def strict_shape(context: Context) -> Iterator[Finding]:
    """A file has the shape that its profile requires: its declarations, and what occurs exactly once.

    With the profile `strict-v1` the root declares the prefixes `bpmn` and `ameide`. A file has one process, the process
    one start and one end, and a subprocess one end or more.

    Wrong:  <endEvent id="done" /> and <endEvent id="done-too" /> with profile = "strict-v1"
    Right:  one endEvent behind an exclusiveGateway that joins
    """
    profile = profile_of(context)
    declared = _read_prefixes(context.root) if profile.prefixes else {}
    for prefix, namespace in profile.prefixes.items():
        if declared.get(prefix) != namespace:
            message = f"the root does not declare the prefix {prefix}"
            yield context.at(context.root, message, hint=f'Write xmlns:{prefix}="{namespace}"', detail=prefix)
    if profile.single:
        yield from _check_counts(context, profile)
        yield from _endless(context)


def _read_prefixes(root: Element) -> dict[str, str]:
    """Return the prefixes that the root declares, with their namespaces."""
    tag = root.document.source.content[root.start : root.tag_end]
    written = ((name.decode(), value[1:-1].decode()) for name, value in _ATTRIBUTE.findall(tag))
    return {name.removeprefix("xmlns:"): value for name, value in written if name.startswith("xmlns:")}


def _check_counts(context: Context, profile: Profile) -> Iterator[Finding]:
    for owner in (context.root, *(process.element for process in context.model.processes)):
        known = ("process",) if owner is context.root else ("startEvent", "endEvent")
        for local in (name for name in profile.single if name in known):
            count = sum(1 for _ in owner.find_all(local))
            if count != 1:
                message = f"the {describe(owner)} has {count} elements {local}"
                hint = f"The profile {profile.name} wants exactly one"
                yield context.at(owner, message, hint=hint, detail=local)


def _endless(context: Context) -> Iterator[Finding]:
    for process in context.model.processes:
        for _, node in process.walk(NodeKind.SUB_PROCESS):
            if node.element.find("endEvent") is None:
                message = f"the {describe(node.element)} has no end"
                yield context.at(node.element, message, hint="Draw an endEvent inside", detail="no end")
