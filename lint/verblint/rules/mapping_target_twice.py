"""A mapping writes each target once."""

from collections.abc import Iterator

from verblint.bpmn.element import AMEIDE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM714", "mapping-target-twice", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """A mapping writes each target once.

    Mappings are applied in order, so if two have the same target, the first is lost.

    Wrong:  two outputs with target="state.case_id"
    Right:  one
    """
    for group in context.every("ioMapping", namespace=AMEIDE):
        seen: set[tuple[str, str]] = set()
        for number, entry in enumerate(group.children):
            key = (entry.local, entry.get("target") or "")
            if key in seen and key[1]:
                message = f"the {entry.local} {key[1]} is written twice"
                yield context.at(entry, message, hint="Keep one of them", detail=f"{number} {key[1]}")
            seen.add(key)
