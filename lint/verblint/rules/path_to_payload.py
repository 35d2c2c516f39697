"""No path and no template leads to the payload as the engine carries it."""

from collections.abc import Iterator

from verblint.bpmn.element import AMEIDE
from verblint.flow.io_mappings import PAYLOAD
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM713", "path-to-payload", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """No path and no template leads to the payload as the engine carries it.

    `state` is the data inside the payload. The variables `domain_payload` and `domain_payload_hash` are its wrapping,
    and a path through them confuses the two.

    Wrong:  source="state.domain_payload.case_id"
    Right:  source="state.case_id"
    """
    for element in context.within(AMEIDE):
        for attribute in element.attributes:
            if PAYLOAD in attribute.value:
                message = f"{attribute.local} leads to {PAYLOAD}, which is not state but what carries it"
                hint = "Write the path inside the data: state.<path>"
                yield context.at(attribute.place, message, hint=hint, detail=f"{element.local} {attribute.value}")
