"""No expression reads the payload."""

from collections.abc import Iterator

from verblint.bpmn.places import values_that_read
from verblint.flow.io_mappings import HASH, PAYLOAD, mapped_nodes
from verblint.report.finding import Finding, Severity
from verblint.rule import OBSCURE, Context, rule


# Nothing can be hidden in a plain file: a name that does not occur in it is not read.
@rule("HB301", "payload-in-expression", Severity.ERROR, on=(OBSCURE,), words=(PAYLOAD,))
def check(context: Context) -> Iterator[Finding]:
    """No expression reads the payload.

    The engine carries `domain_payload` and its hash, and only the runtime reads them. An expression that looks into
    them breaks with the next version of the schema, and the engine's own analysis does not always detect it.

    Wrong:  <timeDuration>=duration(domain_payload.deadline)</timeDuration>
    Right:  <timeDuration>=orch_document_deadline</timeDuration>
    """
    carried = {
        mapping.element
        for mapped in mapped_nodes(context)
        for mapping in mapped.mappings
        if mapped.is_identity(mapping)
    }
    for value in values_that_read(context, PAYLOAD, HASH):
        element = value.place.element
        # A condition has its own rule, and so does a mapping of the payload to itself.
        if not element.is_a("conditionExpression") and element not in carried:
            message = f"the expression {value.text[:40]!r} touches the payload, which is opaque to the engine"
            hint = "Let a sub-verb compute it and set a flag"
            yield context.at(value, message, hint=hint, detail=f"{element.local} {value.text}")
