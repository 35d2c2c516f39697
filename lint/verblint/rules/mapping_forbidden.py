"""A model has no mappings, not even complete ones."""

from collections.abc import Iterator

from verblint.fixes.rewrites import remove
from verblint.flow.io_mappings import mapped_nodes
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB308", "mapping-forbidden", Severity.ERROR, on=("ioMapping",))
def check(context: Context) -> Iterator[Finding]:
    """A model has no mappings, not even complete ones.

    Mappings that carry every variable of the contract have no effect, but one that is forgotten when a flag is added
    loses results. They are allowed by the setting `allow_identity_mappings`. The fix removes them.

    Wrong:  identity mappings of domain_payload, domain_payload_hash and every flag
    Right:  no mapping
    """
    if context.settings.allow_identity_mappings:
        return
    for mapped in mapped_nodes(context):
        if not mapped.missing and all(mapped.is_identity(mapping) for mapping in mapped.mappings):
            group = mapped.mappings[0].element.parent
            assert group is not None
            message = "the mappings carry every variable through, which happens without them"
            fix = remove(group, "remove the mappings")
            yield context.at(group, message, hint="Remove the mappings", fix=fix)
