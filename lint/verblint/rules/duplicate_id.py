"""An id belongs to one element."""

from collections.abc import Iterator

from verblint.bpmn.diagram import exact_ids, ids
from verblint.bpmn.element import BPMN, DIAGRAM, Element, Place
from verblint.bpmn.source import Source
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

_DIAGRAM = (DIAGRAM, "BPMNDiagram")


@rule("HB009", "duplicate-id", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """An id belongs to one element.

    Flows, messages and diagrams refer to elements by id. If two elements share one, a reference is ambiguous, and
    engines refuse the model.

    Wrong:  two elements with id="ask"
    Right:  id="ask" and id="ask-again"
    """
    if not _has_twice(context):
        return
    seen: dict[str, int] = {}
    for written, offset, element in _iterate_ids(context):
        first = seen.setdefault(written, offset)
        if first == offset:
            continue
        message = f"the id {written} was given to another element in line {_source(context).position(first).line}"
        place = Place(element, offset, _source(context).content.index(b">", offset) + 1)
        detail = f"{element.local} {offset}"
        yield context.at(place, message, hint="Give one of them another id", detail=detail)


def _has_twice(context: Context) -> bool:
    """Return whether an id may be duplicated. That is rare, so this is checked before searching for it."""
    names: list[str] = []
    for name, alike in context.elements.items():
        if name[0] == BPMN:
            names += alike.column("id")
    content = _source(context).content
    for diagram in context.elements.get(_DIAGRAM, ()):
        written = ids(content[diagram.start : diagram.close])
        if written is None:
            return True
        names += b"\n".join(written).decode("utf-8", "replace").split("\n")
    different = set(names)
    return len(different) < len(names) - max(0, names.count("") - 1)


def _iterate_ids(context: Context) -> Iterator[tuple[str, int, Element]]:
    """Yield every id with the offset of its tag and its element; for shapes that is the diagram."""
    diagrams = list(context.elements.get(_DIAGRAM, ()))
    for element in (*context.within(BPMN), *diagrams):
        if element.id:
            yield element.id, element.start, element
    for written, offset in exact_ids(_source(context).content) if diagrams else ():
        yield written, offset, diagrams[0]


def _source(context: Context) -> Source:
    return context.root.document.source
