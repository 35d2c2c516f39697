"""Every element is where BPMN expects it, and in the order BPMN expects."""

from collections.abc import Iterator

from verblint.bpmn.bpmn_schema import Content, content, known_elements
from verblint.bpmn.element import BPMN, DIAGRAM, Element
from verblint.bpmn.element_group import ElementGroup
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

# Valid orders of children, by element name.
_SEEN: dict[str, set[tuple[str, ...]]] = {}
_MANY, _LONG = 100, 20


@rule("HB006", "element-misplaced", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """Every element is where BPMN expects it, and in the order BPMN expects.

    The schema has an order: documentation, extensionElements, incoming, outgoing, then the rest. Extensions are inside
    extensionElements. An engine refuses a model in which they are in another place.

    Wrong:  <serviceTask><incoming>f1</incoming><extensionElements>...</extensionElements></serviceTask>
    Right:  <serviceTask><extensionElements>...</extensionElements><incoming>f1</incoming></serviceTask>
    """
    parents = [e.parent for (namespace, _), alike in context.elements.items() if namespace != BPMN for e in alike]
    strange = {parent.local for parent in parents if parent is not None}
    for known, elements in known_elements(context.elements):
        if not known.is_open and (elements[0].local in strange or not _are_in_order(known, elements)):
            for element in elements:
                yield from _check_order(context, element, known)
    for element in context.every("extensionElements"):
        for child in element.children:
            if child.namespace in ("", BPMN):
                message = f"extensionElements may not hold {child.local}, which is not an extension"
                yield context.at(child, message, hint="Move it out of the extensionElements", detail=child.local)


def _are_in_order(known: Content, elements: ElementGroup) -> bool:
    """Return whether elements whose children are all BPMN have them in a valid order."""
    orders = {tuple([child.local for child in element.children]) for element in elements if element.children}
    seen = _SEEN.setdefault(elements[0].local, set())
    if orders <= seen:
        return True
    new = orders - seen
    # Steps are many and similar; a process is unique and need not be cached.
    if len(seen) < _MANY:
        seen.update(order for order in new if len(order) < _LONG and _is_order(known, order))
    return all(_is_order(known, order) for order in new)


def _is_order(known: Content, children: tuple[str, ...]) -> bool:
    slots = [known.numbers.get(child, -1) for child in children]
    is_sorted = slots[0] >= 0 and slots == sorted(slots)
    return is_sorted and all(known.slots[slot].is_repeatable or slots.count(slot) == 1 for slot in set(slots))


def _check_order(context: Context, element: Element, known: Content) -> Iterator[Finding]:
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
                "Remove it" if child.namespace == BPMN else f"Move it into the extensionElements of {describe(element)}"
            )
        elif slot < reached:
            message = f"{child.local} stands too late in the {element.local}"
            hint = "Write documentation, extensionElements, incoming and outgoing first, in this order"
        else:
            message = f"{child.local} may stand once in a {element.local}"
            hint = "Keep one of them"
        yield context.at(child, message, hint=hint, detail=f"{element.local} {child.local} {child.id}")
