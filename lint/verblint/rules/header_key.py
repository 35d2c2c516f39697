"""A header has its own key."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

_RESERVED = "io.camunda.zeebe:"


@rule("HB313", "header-key", Severity.ERROR, on=("taskHeaders",))
def check(context: Context) -> Iterator[Finding]:
    """A header has its own key.

    A worker finds a header by its key. Of two with the same key it sees one, and keys that start with
    `io.camunda.zeebe:` are reserved for the engine.

    Wrong:  two headers with key="letter"
    Right:  key="letter" and key="language"
    """
    for group in context.every("taskHeaders", namespace=ZEEBE):
        seen: set[str] = set()
        for number, header in enumerate(group.find_all("header", ZEEBE)):
            key = header.get("key") or ""
            wrong = _wrong(key, seen)
            seen.add(key)
            if wrong:
                yield context.at(
                    header, f"the header {wrong}", hint="Give it a key of its own", detail=f"{number} {key}"
                )


def _wrong(key: str, seen: set[str]) -> str:
    if not key:
        return "has no key"
    if key.startswith(_RESERVED):
        return f"{key} has a key that is reserved for the engine"
    return f"{key} is written twice" if key in seen else ""
