"""A mapping of the Ameide extension leads from state to request, or from result to state."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import ROOTS
from verblint.bpmn.element import AMEIDE
from verblint.contracts.templates import is_path
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM712", "mapping-path", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """A mapping of the Ameide extension leads from state to request, or from result to state.

    Paths are plain names joined by dots. Inputs read `state.` and write `request.`; outputs read `result.` and write
    `state.`.

    Wrong:  <ameide:input source="state.items[0]" target="item" />
    Right:  <ameide:input source="state.first_item" target="request.item" />
    """
    for local, roots in ROOTS.items():
        for element in context.every(local, namespace=AMEIDE):
            for name, root in zip(("source", "target"), roots, strict=True):
                attribute = element.attribute(name)
                if attribute is None or not attribute.value:
                    continue
                if not is_path(attribute.value) or not attribute.value.startswith(f"{root}."):
                    message = f"{name} is {attribute.value!r}, which is no path below {root}"
                    detail = f"{local} {name} {attribute.value}"
                    yield context.at(attribute.place, message, hint=f"Write {root}.<name>", detail=detail)
