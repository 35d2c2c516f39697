"""Output mappings pass on every result, or do not exist."""

from collections.abc import Iterator

from verblint.flow.io_mappings import mapped_nodes
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB304", "output-hides", Severity.ERROR, on=("ioMapping",))
def check(context: Context) -> Iterator[Finding]:
    """Output mappings pass on every result, or do not exist.

    Without output mappings, everything that a sub-verb returns goes to the process. One output mapping disables that,
    and everything it does not name is lost: the payload, its hash, the other flags.

    Wrong:  <zeebe:output source="=orch_x" target="orch_x" /> alone
    Right:  no mapping
    """
    for mapped in mapped_nodes(context):
        outputs = [mapping for mapping in mapped.mappings if mapping.direction == "output"]
        if outputs and mapped.missing:
            message = f"one output mapping hides all other results: {', '.join(mapped.missing)} would be lost"
            yield context.at(outputs[0].element, message, hint="Remove the output mappings")
