"""An id belongs to one element."""

from collections.abc import Iterator

from verblint.bpmn_schema import DIAGRAM
from verblint.element import BPMN, Element
from verblint.finding import Finding, Severity
from verblint.rule import Context, rule

_CHECKED = (BPMN, DIAGRAM)


@rule("HB009", "duplicate-id", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """An id belongs to one element.

    Flows, messages and diagrams refer to elements by id. With two of one id nobody knows which is meant, and engines
    refuse the model.

    Wrong:  two elements with id="ask"
    Right:  id="ask" and id="ask-again"
    """
    first: dict[str, Element] = {}
    for element in context.root.walk():
        if not element.id or element.namespace not in _CHECKED:
            continue
        if element.id not in first:
            first[element.id] = element
            continue
        attribute = element.attribute("id")
        assert attribute is not None
        message = f"the id {element.id} was given to a {first[element.id].local} in line {first[element.id].line}"
        yield context.at(
            attribute.place, message, hint="Give one of them another id", detail=f"{element.local} {element.start}"
        )
