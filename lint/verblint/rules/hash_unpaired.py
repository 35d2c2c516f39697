"""The payload and its hash are mapped together or not at all."""

from collections.abc import Iterator

from verblint.flow.io_mappings import HASH, PAYLOAD, mapped_nodes
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB307", "hash-unpaired", Severity.ERROR, on=("ioMapping",))
def check(context: Context) -> Iterator[Finding]:
    """The payload and its hash are mapped together or not at all.

    The runtime compares the two at every crossing. A new payload with the old hash is an integrity failure, and rightly
    so: it cannot be distinguished from a manipulated one.

    Wrong:  <zeebe:output source="=domain_payload" target="domain_payload" /> without the hash
    Right:  both, or none
    """
    for mapped in mapped_nodes(context):
        for direction in ("input", "output"):
            found = mapped.identities(direction) & {PAYLOAD, HASH}
            if len(found) == 1:
                present = found.pop()
                absent = HASH if present == PAYLOAD else PAYLOAD
                element = next(m.element for m in mapped.mappings if m.direction == direction and m.target == present)
                message = f"the {direction} mappings carry {present} without {absent}"
                yield context.at(element, message, hint="Remove the mappings, or carry both", detail=direction)
