"""A mapping neither computes nor renames nor creates variables."""

from collections.abc import Iterator

from verblint.flow.io_mappings import mapped_nodes
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB302", "mapping-not-identity", Severity.ERROR, on=("ioMapping",))
def check(context: Context) -> Iterator[Finding]:
    """A mapping neither computes nor renames nor creates variables.

    Mappings that compute are domain logic in the diagram; mappings that create variables spread domain data over the
    engine. Sub-verbs get the payload as a whole and return it as a whole.

    Wrong:  <zeebe:input source="=order.total * 1.2" target="total" />
    Right:  no mapping
    """
    for mapped in mapped_nodes(context):
        for mapping in mapped.mappings:
            if "." in mapping.target or mapped.is_identity(mapping):
                continue
            source = mapping.source.text if mapping.source is not None else "nothing"
            message = f"the {mapping.direction} mapping makes {mapping.target or 'a variable'} of {source}"
            hint = "Remove it: results of sub-verbs go through by themselves"
            yield context.at(mapping.element, message, hint=hint, detail=f"{mapping.direction} {mapping.target}")
