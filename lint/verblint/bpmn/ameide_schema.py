"""The Ameide extension as data: a closed set of elements, attributes and places.

An XML schema would accept unknown elements, because BPMN does not validate extensions. Here anything not listed is an
error, and so is a listed element in another place.
"""

from collections.abc import Iterator, Mapping

from verblint.bpmn.element import AMEIDE, Attribute, Element
from verblint.contracts.profiles import profile_of
from verblint.contracts.templates import Placeholder, TemplateError, parse
from verblint.rule import Context
from verblint.startup.value import value

WORK = ("serviceTask", "sendTask", "intermediateThrowEvent")


@value
class AmeideShape:
    """One element of the extension: its parents, and its required and optional attributes."""

    parents: tuple[str, ...]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    is_repeatable: bool = False


SHAPES: Mapping[str, AmeideShape] = {
    "workflowDefinition": AmeideShape(("process",), ("definitionId", "workflowIdTemplate"), ("workflowType",)),
    "taskDefinition": AmeideShape((*WORK, "endEvent"), ("type", "policyRef"), ("idempotencyKeyTemplate",)),
    "taskHeaders": AmeideShape((*WORK, "endEvent")),
    "header": AmeideShape(("ameide:taskHeaders",), ("key", "value"), is_repeatable=True),
    "ioMapping": AmeideShape((*WORK, "endEvent")),
    "input": AmeideShape(("ameide:ioMapping",), ("source", "target"), is_repeatable=True),
    "output": AmeideShape(("ameide:ioMapping",), ("source", "target"), is_repeatable=True),
    "subscription": AmeideShape(("message",), ("correlationKeyTemplate", "messageIdPath")),
    "updateDefinition": AmeideShape(("userTask",), (), ("name",)),
}
# Root names of the paths in a mapping: (source, target).
ROOTS = {"input": ("state", "request"), "output": ("result", "state")}


def is_used(context: Context) -> bool:
    """Return whether a file uses the extension or its profile requires it; then all of the extension's rules apply."""
    return profile_of(context).needs_extension or any(namespace == AMEIDE for namespace, _ in context.elements)


def extensions(element: Element, local: str) -> list[Element]:
    """Return the extension elements with a name that belong to a BPMN element."""
    return [found for holder in element.find_all("extensionElements") for found in holder.find_all(local, AMEIDE)]


def templates(context: Context) -> Iterator[Attribute]:
    """Yield every attribute of the extension that is a template."""
    for element in context.within(AMEIDE):
        yield from (attribute for attribute in element.attributes if attribute.local.endswith("Template"))


def is_template(attribute: Attribute) -> bool:
    """Return whether the value is a valid template."""
    try:
        parse(attribute.value)
    except TemplateError:
        return False
    return True


def placeholders(attribute: Attribute) -> tuple[Placeholder, ...]:
    """Return the placeholders of a template; none if it is invalid."""
    return parse(attribute.value).placeholders if is_template(attribute) else ()
