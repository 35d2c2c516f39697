"""Every element stands where BPMN wants it, and in the order BPMN wants."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from verblint.bpmn_schema import Content, content, known_elements
from verblint.element import BPMN, DIAGRAM, Element
from verblint.finding import Finding, Severity
from verblint.naming import described
from verblint.rule import Context, rule

_MANY = 20


@rule("HB006", "element-misplaced", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """Every element stands where BPMN wants it, and in the order BPMN wants.

    The schema has an order: documentation, extensionElements, incoming, outgoing, then the rest. Extensions stand
    inside extensionElements. An engine refuses a model in which they stand anywhere else.

    Wrong:  <serviceTask><incoming>f1</incoming><extensionElements>...</extensionElements></serviceTask>
    Right:  <serviceTask><extensionElements>...</extensionElements><incoming>f1</incoming></serviceTask>
    """
    strange = {e.parent for (namespace, _), alike in context.elements.items() if namespace != BPMN for e in alike}
    for known, elements in known_elements(context.elements):
        for element in [element for element in elements if element.children] if not known.is_open else ():
            if element in strange or not _are_in_order(element.local, tuple([c.local for c in element.children])):
                yield from _misplaced(context, element, known)
    for element in context.every("extensionElements"):
        for child in element.children:
            if child.namespace in ("", BPMN):
                message = f"extensionElements may not hold {child.local}, which is not an extension"
                yield context.at(child, message, hint="Move it out of the extensionElements", detail=child.local)


def _are_in_order(local: str, children: tuple[str, ...]) -> bool:
    """True when children of BPMN stand in an element as it wants them."""
    # Steps are many and look alike; a process looks like no other.
    return (_ordered if len(children) < _MANY else _ordered.__wrapped__)(local, children)


@lru_cache(1024)
def _ordered(local: str, children: tuple[str, ...]) -> bool:
    known = content(local)
    assert known is not None, "only elements of BPMN are asked about"
    slots = [known.numbers.get(child, -1) for child in children]
    repeated = {slot for slot, following in pairwise(slots) if slot == following}
    return slots[0] >= 0 and slots == sorted(slots) and all(known.slots[slot].is_repeatable for slot in repeated)


def _misplaced(context: Context, element: Element, known: Content) -> Iterator[Finding]:
    numbers, slots = known.numbers, known.slots
    reached, seen = 0, -1
    for child in element.children:
        slot = numbers.get(child.local) if child.namespace in (BPMN, DIAGRAM) else None
        if slot is not None and (slot > reached or (slot == reached and (slot != seen or slots[slot].is_repeatable))):
            reached = seen = slot
            continue
        if slot is None:
            if child.namespace == BPMN and content(child.local) is None:
                continue
            message = f"a {element.local} may not hold {child.local}"
            hint = (
                "Remove it"
                if child.namespace == BPMN
                else f"Move it into the extensionElements of {described(element)}"
            )
        elif slot < reached:
            message = f"{child.local} stands too late in the {element.local}"
            hint = "Write documentation, extensionElements, incoming and outgoing first, in this order"
        else:
            message = f"{child.local} may stand once in a {element.local}"
            hint = "Keep one of them"
        yield context.at(child, message, hint=hint, detail=f"{element.local} {child.local} {child.id}")
