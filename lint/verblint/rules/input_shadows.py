"""An input mapping does not shadow the variable it copies."""

from collections.abc import Iterator

from verblint.fixes.rewrites import remove
from verblint.flow.io_mappings import mapped_nodes
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB303", "input-shadows", Severity.ERROR, on=("ioMapping",))
def check(context: Context) -> Iterator[Finding]:
    """An input mapping does not shadow the variable it copies.

    An input creates a local variable of the same name. The result of the sub-verb is then written to the local one and
    is lost with it: the process continues with the old payload. The fix removes the mapping.

    Wrong:  <zeebe:input source="=domain_payload" target="domain_payload" />
    Right:  no mapping
    """
    for mapped in mapped_nodes(context):
        # Complete outputs pass the results on, so nothing is lost with the local copies.
        for mapping in mapped.mappings if mapped.missing else ():
            if mapping.direction == "input" and mapped.is_identity(mapping):
                message = f"the local copy of {mapping.target} takes the result of the sub-verb and is lost"
                fix = remove(mapping.element, "remove the mapping")
                yield context.at(mapping.element, message, hint="Remove the mapping", detail=mapping.target, fix=fix)
