"""A mapping does not write into a structure."""

from collections.abc import Iterator

from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB305", "nested-write", Severity.ERROR, on=("ioMapping",))
def check(context: Context) -> Iterator[Finding]:
    """A mapping does not write into a structure.

    A target with a dot creates or changes a context. It destroys the payload, which is a string: the process continues
    with null and the old hash.

    Wrong:  <zeebe:output source="=1" target="domain_payload.x" />
    Right:  a sub-verb that changes the payload and returns it
    """
    for process in context.model.processes:
        for _, node in process.walk():
            for mapping in node.binding.mappings:
                if "." in mapping.target:
                    message = f"the {mapping.direction} mapping writes into {mapping.target.partition('.')[0]}"
                    hint = "Remove it, and let a sub-verb return the change"
                    yield context.at(
                        mapping.element, message, hint=hint, detail=f"{mapping.direction} {mapping.target}"
                    )
